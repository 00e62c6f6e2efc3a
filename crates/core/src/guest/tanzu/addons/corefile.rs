//! What CoreDNS of a newer version no longer understands is taken out of its configuration before it is to run with it: it would not start.
//!
//! What is written instead is what the older version understands as well, since its pods read it anew while they run. What stood there
//! before is kept beside it, as kubeadm does. Which version understands what is told by <https://github.com/coredns/corefile-migration>.

use serde_json::{Value, json};

use crate::guest::wait::{Object, Side};

/// In the ConfigMap of CoreDNS.
const KEY: &str = "Corefile";
const BACKUP: &str = "Corefile-backup";

/// What is no longer understood, and since when: a plugin, or an option of one.
const GONE: [(&str, Option<&str>, Release); 3] = [
    ("kubernetes", Some("resyncperiod"), (1, 6)),
    ("kubernetes", Some("upstream"), (1, 7)),
    ("federation", None, (1, 7)),
];
/// Since then `forward` takes the place of `proxy`.
const WITHOUT_PROXY: Release = (1, 5);
/// Options of `proxy` that `forward` has not, or understands otherwise.
const OF_PROXY_ALONE: [&str; 4] = ["fail_timeout", "max_fails", "health_check", "spray"];

/// Major and minor.
type Release = (u64, u64);

pub fn object() -> Object {
    Object::of(Side::Guest, &map(&json!({})))
}

fn map(data: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "coredns", "namespace": "kube-system" }, "data": data })
}

/// What the ConfigMap has to be for a version; none if it is fine as it is. Else why nobody but a person can tell.
pub fn wanted(live: &Value, version: &str) -> Result<Option<Value>, String> {
    let (Some(before), Some(release)) = (live["data"][KEY].as_str(), release(version)) else { return Ok(None) };
    let after = migrated(before, release).map_err(|why| {
        format!(
            "data.{KEY} of {}: {why}, and CoreDNS {version} would not start with it; \
             in the guest cluster: kubectl -n kube-system edit configmap coredns",
            object()
        )
    })?;
    Ok((after != before).then(|| map(&json!({ KEY: after, BACKUP: before }))))
}

/// Of `v1.6.2_vmware.6`.
fn release(version: &str) -> Option<Release> {
    let mut numbers = version.trim_start_matches('v').split(['.', '_', '-', '+']).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// A line, and where it stands: in no server block, of a plugin, or an option of that.
struct Line<'a> {
    text: &'a str,
    /// Without what is only said.
    code: &'a str,
    words: Vec<&'a str>,
    plugin: &'a str,
    /// In how many braces it begins, and the next one does.
    depth: usize,
    after: usize,
}

fn lines(text: &str) -> Vec<Line<'_>> {
    let (mut depth, mut plugin) = (0_usize, "");
    let line = |text| {
        let code: &str = str::split(text, '#').next().unwrap_or_default().trim();
        let words: Vec<&str> = code.split_whitespace().collect();
        let first = words.first().copied().filter(|first| depth == 1 && *first != "}");
        plugin = first.unwrap_or(plugin);
        let after = (depth + code.matches('{').count()).saturating_sub(code.matches('}').count());
        let line = Line { text, code, words, plugin, depth, after };
        depth = after;
        line
    };
    text.lines().map(line).collect()
}

/// What becomes of a line, and of the block that it opens.
enum Fate {
    Stays,
    Becomes(String),
    Goes,
}

impl Line<'_> {
    fn fate(&self, to: Release) -> Result<Fate, String> {
        let first = self.words.first().copied().unwrap_or_default();
        let is_gone = |(plugin, option, since): &(&str, Option<&str>, Release)| {
            let (depth, name) = option.map_or((1, *plugin), |option| (2, option));
            to >= *since && self.plugin == *plugin && self.depth == depth && first == name
        };
        if GONE.iter().any(is_gone) {
            return Ok(Fate::Goes);
        }
        if to < WITHOUT_PROXY || self.plugin != "proxy" {
            return Ok(Fate::Stays);
        }
        Ok(match (self.depth, first) {
            (1, "proxy") => Fate::Becomes(self.code.replacen("proxy", "forward", 1)),
            (2, "protocol") if self.words.contains(&"force_tcp") => Fate::Becomes("force_tcp".to_owned()),
            (2, "protocol") => Fate::Goes,
            (2, "policy") if self.words.contains(&"least_conn") => {
                return Err("proxy has the policy least_conn, which forward has not".to_owned());
            }
            (2, option) if OF_PROXY_ALONE.contains(&option) => Fate::Goes,
            _ => Fate::Stays,
        })
    }
}

fn migrated(before: &str, to: Release) -> Result<String, String> {
    let mut kept = Vec::new();
    let mut left_out = None;
    for line in lines(before) {
        match line.fate(to)? {
            _ if left_out.is_some() => {}
            Fate::Stays => kept.push(line.text.to_owned()),
            Fate::Becomes(other) => kept.push(line.text.replacen(line.code, &other, 1)),
            Fate::Goes => left_out = Some(line.depth),
        }
        left_out = left_out.filter(|depth| line.after > *depth);
    }
    let end = if before.ends_with('\n') { "\n" } else { "" };
    let after = format!("{}{end}", kept.join("\n"));
    if after != before && has_several_forwards(&after) {
        return Err("it has proxy for several zones in one server block, and each needs one of its own".to_owned());
    }
    Ok(after)
}

fn has_several_forwards(corefile: &str) -> bool {
    let mut forwards = 0;
    lines(corefile).iter().any(|line| {
        forwards = match line.depth {
            0 => 0,
            1 if line.words.first() == Some(&"forward") => forwards + 1,
            _ => forwards,
        };
        forwards > 1
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = ".:53 {
    errors
    # who asks for what
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       pods insecure
       upstream
       resyncperiod 5m
       fallthrough in-addr.arpa ip6.arpa
    }
    federation cluster.local {
       prod prod.example.org
    }
    proxy . /etc/resolv.conf {
       policy random
       fail_timeout 5s
       protocol dns force_tcp
    }
    cache 30
}
";

    fn after(corefile: &str, version: &str) -> Option<String> {
        let live = map(&json!({ KEY: corefile }));
        let wanted = wanted(&live, version).unwrap()?;
        assert_eq!(wanted["data"][BACKUP], corefile, "what was there is kept");
        Some(wanted["data"][KEY].as_str().unwrap().to_owned())
    }

    #[test]
    fn what_a_version_does_not_understand_goes_and_all_else_stays_to_the_letter() {
        let forward = OLD
            .replace("    proxy . /etc", "    forward . /etc")
            .replace("       fail_timeout 5s\n", "")
            .replace("protocol dns force_tcp", "force_tcp");
        let of_1_6 = forward.replace("       resyncperiod 5m\n", "");
        let of_1_7 = of_1_6
            .replace("       upstream\n", "")
            .replace("    federation cluster.local {\n       prod prod.example.org\n    }\n", "");
        assert_eq!(after(OLD, "v1.3.1_vmware.4"), None);
        assert_eq!(after(OLD, "v1.5.0"), Some(forward));
        assert_eq!(after(OLD, "v1.6.2_vmware.6"), Some(of_1_6));
        assert_eq!(after(OLD, "1.11.3"), Some(of_1_7.clone()));
        assert_eq!(after(&of_1_7, "1.11.3"), None, "a second time there is nothing to do");
    }

    #[test]
    fn what_only_looks_like_it_stays() {
        let fine = ".:53 {\n    # proxy . 8.8.8.8\n    log proxy\n    template IN A proxy {\n       upstream\n    }\n    forward . 9.9.9.9\n}\nexample.org {\n    forward . 1.1.1.1\n}";
        assert_eq!(after(fine, "1.11.3"), None);
        assert_eq!(after(OLD, "latest"), None, "nobody knows what that is");
        assert_eq!(wanted(&json!({}), "1.11.3"), Ok(None));
    }

    #[test]
    fn what_only_a_person_can_tell_is_named_with_the_object_and_the_field() {
        let several = ".:53 {\n    proxy example.org 10.0.0.1\n    proxy . /etc/resolv.conf\n}";
        let least = ".:53 {\n    proxy . 1.1.1.1 9.9.9.9 {\n        policy least_conn\n    }\n}";
        for (corefile, flaw) in [(several, "several zones"), (least, "least_conn")] {
            let why = wanted(&map(&json!({ KEY: corefile })), "v1.6.2_vmware.6").unwrap_err();
            assert!(why.starts_with("data.Corefile of ConfigMap/kube-system/coredns: ") && why.contains(flaw), "{why}");
            assert!(why.ends_with("edit configmap coredns"), "{why}");
        }
    }
}

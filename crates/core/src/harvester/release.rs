//! What a release says of itself, and whose steps bring a cluster to it.

use std::collections::BTreeMap;

use drover_api::harvester::jobs::stock;
use drover_api::marks;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Below the key `drover`: where the chart of Rancher is.
pub const RANCHER_CHART: &str = "rancherChart";

/// What the script of a stock release asks for of the charts that Rancher brings along.
const RANCHER_BRINGS: [&str; 3] = ["fleet", "fleet-crd", "rancher-webhook"];

/// What stands below the key `drover`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ForSteps {
    rancher_chart: String,
    /// The versions of add-ons, by `NAMESPACE/NAME`.
    addons: BTreeMap<String, String>,
    /// Files of YAML below the repository, or at `http://`, in the order in which they are applied.
    manifests: Vec<String>,
}

/// `harvester-release.yaml`, as far as it is read.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Release {
    pub harvester: String,
    pub harvester_chart: String,
    /// As nodes say it: `Harvester v1.8.0`.
    pub os: String,
    pub kubernetes: String,
    pub rancher: String,
    pub monitoring_chart: String,
    pub logging_chart: String,
    pub logging_chart_harvester_event_router: String,
    /// The charts that Rancher brings along, each with its version and that of what is in it.
    pub rancher_dependencies: Value,
    pub kubevirt: String,
    pub min_upgradable_version: String,
    /// The release is made for Drover's steps; what stands there is for them.
    pub drover: Option<Value>,
}

/// What is kept of it on the Upgrade.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Noted {
    pub harvester: String,
    pub harvester_chart: String,
    pub os: String,
    pub kubernetes: String,
    pub rancher: String,
    /// Where the chart of that Rancher is: below the repository, or a URL.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub rancher_chart: String,
    pub monitoring_chart: String,
    pub logging_chart: String,
    /// What KubeVirt says that it is then.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kubevirt: String,
    pub min_upgradable_version: String,
    /// The versions of add-ons, by `NAMESPACE/NAME`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub addons: BTreeMap<String, String>,
    /// Where its further manifests are: below the repository, or at `http://`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub manifests: Vec<String>,
}

/// What the repository has answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Fetched {
    pub at: Timestamp,
    /// It is being asked.
    pub pending: bool,
    pub answer: Result<Served, String>,
}

/// What the repository serves.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Served {
    pub release: Release,
    /// The images of the release; none if it does not list them.
    pub images: Option<String>,
    /// Those of the release that ran before; none if it does not list them.
    pub previous_images: Option<String>,
}

/// Whose steps the Jobs run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Steps {
    #[default]
    Drover,
    /// Those of the release's own upgrade image.
    Release,
}

impl Served {
    /// By the annotation, else by what the release says; the error is the finding about a release that nobody knows.
    pub fn steps(&self, annotations: &BTreeMap<String, String>) -> Result<Steps, String> {
        match annotations.get(marks::STEPS).map(String::as_str) {
            Some(marks::STEPS_DROVER) => return Ok(Steps::Drover),
            Some(marks::STEPS_RELEASE) => return Ok(Steps::Release),
            Some(other) => {
                return Err(format!("the annotation {} says {other}, and not release or drover", marks::STEPS));
            }
            None => {}
        }
        if self.release.drover.is_some() {
            return Ok(Steps::Drover);
        }
        let image = format!("{}:{}", stock::IMAGE, self.release.harvester);
        let is_it = |line: &str| {
            let rest = line.trim().strip_suffix(image.as_str());
            rest.is_some_and(|registry| registry.is_empty() || registry.ends_with('/'))
        };
        let lists = |images: &String| images.lines().any(is_it);
        match (self.release.missing(), self.images.as_ref().is_some_and(lists)) {
            (None, true) => Ok(Steps::Release),
            (Some(field), _) => Err(format!("its harvester-release.yaml has neither the key drover nor {field}")),
            (None, false) => Err(format!("its image lists do not name {image}, and it has no key drover")),
        }
    }
}

impl Release {
    /// The first field that a stock release has and this one has not.
    fn missing(&self) -> Option<String> {
        let fields = [
            ("harvester", &self.harvester),
            ("harvesterChart", &self.harvester_chart),
            ("os", &self.os),
            ("kubernetes", &self.kubernetes),
            ("rancher", &self.rancher),
            ("monitoringChart", &self.monitoring_chart),
            ("loggingChart", &self.logging_chart),
            ("loggingChartHarvesterEventRouter", &self.logging_chart_harvester_event_router),
            ("kubevirt", &self.kubevirt),
        ];
        let mut brought = RANCHER_BRINGS.iter().flat_map(|name| ["chart", "app"].map(|part| (name, part)));
        let lacks = |(name, part): &(&&str, &str)| is_unsaid(&self.rancher_dependencies[**name][*part]);
        let dependency = || brought.find(lacks).map(|(name, part)| format!("rancherDependencies.{name}.{part}"));
        first_empty(&fields).map(str::to_owned).or_else(dependency)
    }

    /// What no upgrade can do without.
    pub fn unusable(&self) -> Option<&'static str> {
        first_empty(&[("harvester", &self.harvester), ("os", &self.os), ("kubernetes", &self.kubernetes)])
    }

    /// Where Drover's steps find the chart of Rancher; none if the release does not say.
    pub fn rancher_chart(&self) -> Option<&str> {
        self.drover.as_ref()?.get(RANCHER_CHART)?.as_str().filter(|path| !path.is_empty())
    }

    /// What is wrong with what it says to Drover's steps.
    pub fn unclear(&self) -> Option<String> {
        let said = match self.for_steps() {
            Ok(said) => said,
            Err(error) => return Some(error.to_string()),
        };
        let is_named = |key: &&String| {
            let parts: Vec<&str> = key.split('/').collect();
            parts.len() == 2 && parts.iter().all(|part| !part.is_empty())
        };
        if let Some(key) = said.addons.keys().find(|key| !is_named(key)) {
            return Some(format!("addons: {key:?} is no NAMESPACE/NAME"));
        }
        if let Some((key, _)) = said.addons.iter().find(|(_, version)| version.is_empty()) {
            return Some(format!("addons: {key} has no version"));
        }
        let again = |(at, path): (usize, &String)| path.is_empty() || said.manifests[..at].contains(path);
        let twice = said.manifests.iter().enumerate().find(|one| again(*one));
        if let Some((_, path)) = twice {
            return Some(format!("manifests: {path:?} is empty, or is there twice"));
        }
        let is_elsewhere = |path: &&String| path.contains("://") && !path.starts_with("http://");
        let elsewhere = said.manifests.iter().find(is_elsewhere);
        elsewhere.map(|path| {
            format!("manifests: {path:?} is read by nobody: name a file below the repository, or one at http://")
        })
    }

    fn for_steps(&self) -> Result<ForSteps, serde_json::Error> {
        let said = self.drover.clone().filter(|said| !said.is_null());
        said.map_or_else(|| Ok(ForSteps::default()), serde_json::from_value)
    }

    pub fn noted(&self) -> Noted {
        let ForSteps { rancher_chart, addons, manifests } = self.for_steps().unwrap_or_default();
        Noted {
            harvester: self.harvester.clone(),
            harvester_chart: self.harvester_chart.clone(),
            os: self.os.clone(),
            kubernetes: self.kubernetes.clone(),
            rancher: self.rancher.clone(),
            rancher_chart,
            monitoring_chart: self.monitoring_chart.clone(),
            logging_chart: self.logging_chart.clone(),
            kubevirt: self.kubevirt.clone(),
            min_upgradable_version: self.min_upgradable_version.clone(),
            addons,
            manifests,
        }
    }
}

fn is_unsaid(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        // A version that looks like a number may be one.
        value => !value.is_number(),
    }
}

fn first_empty(fields: &[(&'static str, &String)]) -> Option<&'static str> {
    fields.iter().find(|(_, value)| value.is_empty()).map(|(name, _)| *name)
}

impl Noted {
    /// As `status.repoInfo` has it: YAML with the key `release`.
    pub fn as_yaml(&self) -> String {
        let fields = [
            ("harvester", &self.harvester),
            ("harvesterChart", &self.harvester_chart),
            ("os", &self.os),
            ("kubernetes", &self.kubernetes),
            ("rancher", &self.rancher),
            ("monitoringChart", &self.monitoring_chart),
            ("minUpgradableVersion", &self.min_upgradable_version),
        ];
        let lines = fields.iter().map(|(key, value)| format!("    {key}: {}\n", serde_json::json!(value)));
        format!("release:\n{}", lines.collect::<String>())
    }
}

/// A version of a kubelet as one release names it: without the mark of a release candidate.
pub fn is_kubelet_version(kubelet: &str, wanted: &str) -> bool {
    let plain = |version: &str| {
        let (base, build) = version.split_once('+').unwrap_or((version, ""));
        let base = base.split_once("-rc").map_or(base, |(base, _)| base);
        format!("{base}+{build}")
    };
    plain(kubelet) == plain(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stock() -> Served {
        let version = || "1".to_owned();
        let release = Release {
            harvester: "v1.8.0".into(),
            harvester_chart: version(),
            os: version(),
            kubernetes: version(),
            rancher: version(),
            monitoring_chart: version(),
            logging_chart: version(),
            logging_chart_harvester_event_router: version(),
            rancher_dependencies: serde_json::json!({
                "fleet": { "chart": "1", "app": "1" },
                "fleet-crd": { "chart": "1", "app": 1.5 },
                "rancher-webhook": { "chart": "1", "app": "1" },
            }),
            kubevirt: version(),
            ..Release::default()
        };
        let images = Some("docker.io/rancher/harvester-upgrade:v1.8.0\ndocker.io/rancher/rancher:v2\n".to_owned());
        Served { release, images, previous_images: None }
    }

    #[test]
    fn a_stock_release_brings_its_own_steps() {
        assert_eq!(stock().steps(&BTreeMap::new()), Ok(Steps::Release));
    }

    #[test]
    fn a_release_that_leaves_out_anything_that_its_script_asks_for_is_none() {
        let lacks = |change: &dyn Fn(&mut Release)| {
            let mut served = stock();
            change(&mut served.release);
            served.steps(&BTreeMap::new()).unwrap_err()
        };
        type Field = fn(&mut Release) -> &mut String;
        let fields: [(&str, Field); 9] = [
            ("harvester", |release| &mut release.harvester),
            ("harvesterChart", |release| &mut release.harvester_chart),
            ("os", |release| &mut release.os),
            ("kubernetes", |release| &mut release.kubernetes),
            ("rancher", |release| &mut release.rancher),
            ("monitoringChart", |release| &mut release.monitoring_chart),
            ("loggingChart", |release| &mut release.logging_chart),
            ("loggingChartHarvesterEventRouter", |release| &mut release.logging_chart_harvester_event_router),
            ("kubevirt", |release| &mut release.kubevirt),
        ];
        for (name, field) in fields {
            let said = lacks(&|release| field(release).clear());
            assert!(said.ends_with(&format!(" {name}")), "{said}");
        }
        for name in ["fleet", "fleet-crd", "rancher-webhook"] {
            for part in ["chart", "app"] {
                let said = lacks(&|release| release.rancher_dependencies[name][part] = "".into());
                assert!(said.ends_with(&format!(" rancherDependencies.{name}.{part}")), "{said}");
            }
            let said = lacks(&|release| drop(release.rancher_dependencies[name].take()));
            assert!(said.ends_with(&format!(" rancherDependencies.{name}.chart")), "{said}");
        }
    }

    #[test]
    fn an_image_of_another_name_or_version_is_not_that_of_the_release() {
        for images in
            ["docker.io/rancher/harvester-upgrade:v1.8.0-rc1", "example.com/not-rancher/harvester-upgrade:v1.8.0x"]
        {
            let release = Served { images: Some(images.to_owned()), ..stock() };
            assert!(release.steps(&BTreeMap::new()).is_err(), "{images}");
        }
        let elsewhere =
            Served { images: Some("example.com/mirror/rancher/harvester-upgrade:v1.8.0".to_owned()), ..stock() };
        assert_eq!(elsewhere.steps(&BTreeMap::new()), Ok(Steps::Release));
    }

    #[test]
    fn an_unknown_release_is_a_finding_and_never_a_guess() {
        let mut unknown = stock();
        unknown.images = None;
        assert!(unknown.steps(&BTreeMap::new()).unwrap_err().contains("rancher/harvester-upgrade:v1.8.0"));
        unknown.release.kubevirt.clear();
        assert!(unknown.steps(&BTreeMap::new()).unwrap_err().contains("kubevirt"));
    }

    #[test]
    fn what_a_release_says_to_drovers_steps_has_to_be_clear() {
        let with = |drover: serde_json::Value| Release { drover: Some(drover), ..Release::default() };
        let addons = serde_json::json!({ "harvester-system/pcidevices-controller": "1.8.0" });
        let clear =
            with(serde_json::json!({ "rancherChart": "r.tgz", "addons": addons, "manifests": ["a.yaml", "b.yaml"] }));
        assert_eq!(clear.unclear(), None);
        let noted = clear.noted();
        assert_eq!((noted.rancher_chart.as_str(), noted.addons.len(), noted.manifests.len()), ("r.tgz", 1, 2));
        let plain = serde_json::json!({ "manifests": ["http://example.com/a.yaml?b=c"] });
        for nothing in [serde_json::json!({}), serde_json::Value::Null, plain] {
            assert_eq!(with(nothing).unclear(), None);
        }
        for (drover, word) in [
            (serde_json::json!({ "addons": { "pcidevices-controller": "1" } }), "is no NAMESPACE/NAME"),
            (serde_json::json!({ "addons": { "a/b/c": "1" } }), "is no NAMESPACE/NAME"),
            (serde_json::json!({ "addons": { "a/b": "" } }), "a/b has no version"),
            (serde_json::json!({ "manifests": ["a.yaml", "a.yaml"] }), "is there twice"),
            (serde_json::json!({ "manifests": [""] }), "is empty"),
            (serde_json::json!({ "manifests": "a.yaml" }), "invalid type"),
            (
                serde_json::json!({ "manifests": ["a.yaml", "https://example.com/b.yaml"] }),
                "https://example.com/b.yaml",
            ),
        ] {
            let said = with(drover).unclear().unwrap();
            assert!(said.contains(word), "{said}");
        }
    }

    #[test]
    fn the_user_says_whose_steps_run() {
        let says = |word: &str| BTreeMap::from([(marks::STEPS.to_owned(), word.to_owned())]);
        assert_eq!(stock().steps(&says("drover")), Ok(Steps::Drover));
        assert_eq!(Served::default().steps(&says("release")), Ok(Steps::Release));
        assert!(stock().steps(&says("mine")).is_err());
    }

    #[test]
    fn a_kubelet_runs_the_version_of_its_release_candidate() {
        assert!(is_kubelet_version("v1.34.1+rke2r1", "v1.34.1-rc2+rke2r1"));
        assert!(!is_kubelet_version("v1.34.1+rke2r1", "v1.34.1+rke2r2"));
    }
}

//! Which distribution is asked for, and what its image says of it.

use drover_api::vm_operator::virtual_machine_image::annotations::DISTRIBUTION;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Held, Reason, View, text};
use crate::decision::Act;
use crate::guest::order::{Version, begins_with};
use crate::guest::seen::Collection;
use crate::guest::wait::{Object, Side, Write};
use crate::plan::version::is_lower;

/// A distribution, as its image tells.
#[derive(Debug, Clone, PartialEq)]
pub struct Distribution {
    /// In full, such as `v1.16.7+vmware.1-guest.1`.
    pub version: String,
    pub image: String,
    pub kubernetes: Version,
    pub parts: Parts,
}

impl Distribution {
    /// What its Nodes carry as their label: in the value of one there is no `+`.
    pub fn label(&self) -> String {
        self.version.replace('+', "_")
    }
}

/// The annotation of the image.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Parts {
    /// Which distribution it is; not everybody says so.
    #[serde(default)]
    distribution: Named,
    pub kubernetes: Component,
    pub etcd: Component,
    pub coredns: Component,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Component {
    pub image_repository: String,
    pub version: String,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
struct Named {
    #[serde(default)]
    version: String,
}

impl Parts {
    /// What the annotation of an image of a version says, or why it says nothing. Whatever is in it reaches every machine: what no
    /// image can be called is refused here.
    pub fn read(said: &str, of: &str) -> Result<(Parts, Version), String> {
        let parts: Parts = serde_json::from_str(said).map_err(|error| error.to_string())?;
        let own = &parts.distribution.version;
        if !own.is_empty() && !is_same(own, of) {
            return Err(format!("distribution.version is {own:?}, and spec.productInfo says {of}"));
        }
        let components = [("kubernetes", &parts.kubernetes), ("etcd", &parts.etcd), ("coredns", &parts.coredns)];
        for (name, component) in components {
            if !is_repository(&component.image_repository) {
                let said = &component.image_repository;
                return Err(format!("{name}.imageRepository is {said:?}, which is no repository of images"));
            }
        }
        for (name, component) in &components[1..] {
            if !is_tag(&component.version) {
                let hint = if component.version.contains('+') { ": tags have _ instead of +" } else { "" };
                return Err(format!("{name}.version is {:?}, which is no tag of an image{hint}", component.version));
            }
        }
        match Version::parse(&parts.kubernetes.version) {
            Some(version) => Ok((parts, version)),
            None => {
                Err(format!("kubernetes.version is {:?}, which is no version of Kubernetes", parts.kubernetes.version))
            }
        }
    }
}

/// As registries have them: parts with small letters and digits, and a host with a port perhaps.
fn is_repository(text: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let is_part = |part: &str| {
        part.starts_with(is_letter)
            && part.ends_with(is_letter)
            && part.chars().all(|one| is_letter(one) || "._-".contains(one))
    };
    let (host, path) = text.split_once('/').unwrap_or((text, ""));
    let (host, port) = host.split_once(':').unwrap_or((host, "0"));
    let has_port = !port.is_empty() && port.chars().all(|one| one.is_ascii_digit());
    is_part(host) && has_port && (path.is_empty() && !text.ends_with('/') || path.split('/').all(is_part))
}

fn is_tag(text: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    text.len() <= 128 && text.starts_with(is_letter) && text.chars().all(|one| is_letter(one) || ".-".contains(one))
}

pub enum Asked {
    Found(Box<Distribution>),
    /// Only the beginning of a version is given: this is the newest that there is, to be written down.
    Resolved(String),
}

/// What `spec.distribution` means.
pub fn asked(view: &View<'_>) -> Held<Asked> {
    let spec = &view.tkc["spec"]["distribution"];
    let (full, hint) = (text(&spec["fullVersion"]), text(&spec["version"]));
    let refused = |reason: Reason, sentence: String, remedy: String| {
        Box::new(view.wait(view.object(), reason, sentence).with_remedy(remedy))
    };
    if full.is_empty() && hint.is_empty() {
        let sentence = "neither spec.distribution.fullVersion nor spec.distribution.version is given".to_owned();
        return Err(refused(Reason::VersionUnknown, sentence, list_images()));
    }
    if full.is_empty() {
        let newest = versions(view).into_iter().filter(|(version, _)| begins_with(version, hint)).reduce(newer);
        return match newest {
            Some((version, _)) => Ok(Asked::Resolved(version)),
            None => {
                let sentence = format!("spec.distribution.version is {hint}, and no image is of a version like it");
                Err(refused(Reason::VersionUnknown, sentence, list_images()))
            }
        };
    }
    if !hint.is_empty() && !begins_with(full, hint) {
        let sentence = format!("spec.distribution.fullVersion is {full}, and spec.distribution.version is {hint}");
        let remedy = "set spec.distribution.fullVersion to null to follow spec.distribution.version";
        return Err(refused(Reason::VersionUnknown, sentence, remedy.to_owned()));
    }
    in_full(view, full, &format!("spec.distribution.fullVersion is {full}"))
}

/// The distribution of a version in full; `said` is where it is asked for.
pub fn in_full(view: &View<'_>, full: &str, said: &str) -> Held<Asked> {
    let mut of_it: Vec<(String, &Value)> = versions(view);
    of_it.retain(|(version, _)| is_same(version, full));
    // Another image of the version replaces no machine while the one that they are made of is there.
    let in_use = of_it.iter().position(|(_, image)| image_in_use(view) == Some(text(&image["metadata"]["name"])));
    let Some((version, image)) = of_it.into_iter().nth(in_use.unwrap_or(0)) else {
        let sentence = format!("{said}, and no image is of that version");
        let wait = view.wait(view.object(), Reason::VersionUnknown, sentence);
        return Err(Box::new(wait.with_remedy(list_images())));
    };
    read(view, version, image).map(|found| Asked::Found(Box::new(found)))
}

/// That of the youngest machine of the control plane.
fn image_in_use<'a>(view: &View<'a>) -> Option<&'a str> {
    let age = |machine: &&Value| {
        let metadata = &machine["metadata"];
        (text(&metadata["creationTimestamp"]).to_owned(), text(&metadata["name"]).to_owned())
    };
    let reference = &view.machines(true).max_by_key(age)?["spec"]["infrastructureRef"];
    let key = format!("{}/{}", text(&reference["kind"]), text(&reference["name"]));
    view.own.get(Collection::Infrastructure, &key)?["spec"]["imageName"].as_str()
}

/// Where only the beginning was given, the version that it stands for is written down, as the original does at admission.
pub fn written_down(view: &View<'_>, version: &str) -> Write {
    let patch = json!({
        "metadata": { "resourceVersion": view.tkc["metadata"]["resourceVersion"] },
        "spec": { "distribution": { "fullVersion": version } },
    });
    Write { object: view.object(), act: Act::Patch(patch), purpose: "write down the version that is meant" }
}

/// Versions and the images of them.
fn versions<'a>(view: &View<'a>) -> Vec<(String, &'a Value)> {
    let of = |image: &'a Value| Some((version_of(image)?.to_owned(), image));
    view.global.all(Collection::Images).filter_map(of).collect()
}

pub fn version_of(image: &Value) -> Option<&str> {
    let info = &image["spec"]["productInfo"];
    [text(&info["fullVersion"]), text(&info["version"])].into_iter().find(|one| !one.is_empty())
}

/// Whether an image is of this version, in full.
pub fn is_of(image: &Value, version: &str) -> bool {
    version_of(image).is_some_and(|own| is_same(own, version))
}

/// With or without `v`.
pub fn is_same(one: &str, other: &str) -> bool {
    one.trim_start_matches('v') == other.trim_start_matches('v')
}

fn newer<'a>(one: (String, &'a Value), other: (String, &'a Value)) -> (String, &'a Value) {
    if is_lower(&one.0, &other.0) { other } else { one }
}

fn read(view: &View<'_>, version: String, image: &Value) -> Held<Distribution> {
    let object = Object::of(Side::Management, image);
    let invalid = |cause: String| {
        let sentence = format!("{object} does not tell what it holds: {cause}");
        let wait = view.wait(object.clone(), Reason::ImageInvalid, sentence);
        Box::new(wait.with_remedy("synchronise the content library again, or ask for another version"))
    };
    let Some(said) = image["metadata"]["annotations"][DISTRIBUTION].as_str() else {
        return Err(invalid(format!("it has no annotation {DISTRIBUTION}")));
    };
    let (parts, kubernetes) =
        Parts::read(said, &version).map_err(|error| invalid(format!("its annotation {DISTRIBUTION}: {error}")))?;
    let image = text(&image["metadata"]["name"]).to_owned();
    Ok(Distribution { version, image, kubernetes, parts })
}

fn list_images() -> String {
    "choose one of: kubectl get virtualmachineimages".to_owned()
}

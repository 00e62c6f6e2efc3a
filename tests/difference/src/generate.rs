//! Random requests, as scripts: the same seed gives the same ones, on every machine.
//!
//! An episode is a script of some fifty requests about a handful of objects in a namespace of its own, so that what
//! one episode shows does not depend on those before it, and a difference can be cut down to few steps.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::script::{Ask, Body, Reading, Script, Step, from_yaml};

const STEPS: usize = 50;

/// What requests are made of.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Generator {
    names: Vec<String>,
    kinds: Vec<Kind>,
    definition: Value,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kind {
    path: String,
    /// How often it comes up, compared with others.
    weight: usize,
    object: Map<String, Value>,
    /// Values that are accepted, by place.
    fields: BTreeMap<String, Vec<Value>>,
    wrong: BTreeMap<String, Vec<Value>>,
    #[serde(default)]
    status: bool,
    #[serde(default)]
    scale: bool,
    /// Without a namespace.
    #[serde(default)]
    cluster: bool,
}

impl Generator {
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        from_yaml(text)
    }

    /// As many episodes as `count` requests need.
    pub fn episodes(&self, seed: u64, count: usize) -> impl Iterator<Item = Script> {
        (0..count.div_ceil(STEPS)).map(move |number| self.episode(seed, number))
    }

    fn episode(&self, seed: u64, number: usize) -> Script {
        let mut dice = Dice::new(seed, number as u64);
        let watched = dice.pick(&self.kinds).clone();
        let mut steps = vec![Step::Watch {
            watch: "all".into(),
            ask: Ask::new("GET", format!("{}?watch=true{}", watched.path, self.mine(&watched))),
        }];
        while steps.len() < STEPS - 2 {
            steps.push(Step::Ask(self.request(&mut dice, steps.len())));
        }
        // The watch is read up to an object that is made last, so that nothing is waited for that never comes.
        let mut last = watched.object.clone();
        last.insert("metadata".into(), json!({ "name": self.named(&watched, "last"), "labels": { "run": "${ns}" } }));
        steps.push(Step::Ask(Ask::new("POST", watched.path.clone()).with("json", Body::Json(Value::Object(last)))));
        steps.push(Step::Read { watch: "all".into(), until: Reading::To(self.named(&watched, "last")) });
        Script {
            name: format!("generated-{seed}-{number}"),
            about: format!("seed {seed}, episode {number}"),
            definitions: vec![self.definition.clone()],
            steps,
        }
    }

    /// Objects without a namespace carry the run in their names, and in a label to find them by.
    fn named(&self, kind: &Kind, name: &str) -> String {
        if kind.cluster { format!("{name}-${{ns}}") } else { name.into() }
    }

    fn mine(&self, kind: &Kind) -> &'static str {
        if kind.cluster { "&labelSelector=run%3D${ns}" } else { "" }
    }

    fn request(&self, dice: &mut Dice, number: usize) -> Ask {
        let weights: usize = self.kinds.iter().map(|kind| kind.weight).sum();
        let mut place = dice.below(weights);
        let kind = self.kinds.iter().find(|kind| {
            let here = place < kind.weight;
            place = place.saturating_sub(kind.weight);
            here
        });
        // The weights add up to what was diced for, so there is always one.
        let kind = kind.unwrap_or(&self.kinds[0]);
        let bare = dice.pick(&self.names).clone();
        let key = format!("{}-{bare}", short(kind));
        let request = Request { kind, name: self.named(kind, &bare), key, number, dice };
        request.build()
    }
}

fn short(kind: &Kind) -> &str {
    kind.path.rsplit('/').next().unwrap_or_default()
}

/// One request in the making.
struct Request<'a> {
    kind: &'a Kind,
    name: String,
    /// Under which what is known of the object is kept.
    key: String,
    /// Its place in the episode.
    number: usize,
    dice: &'a mut Dice,
}

const BROKEN: [&str; 8] =
    ["{", "", "[]", "null", "7", "{\"kind\":", "{\"metadata\":{\"name\":\"a\"},}", "{\"a\":1}{\"b\":2}"];

impl Request<'_> {
    fn build(mut self) -> Ask {
        match self.dice.below(100) {
            0..25 => self.create(),
            25..37 => self.get(),
            37..45 => self.list(),
            45..57 => self.update(),
            57..67 => self.merge("merge"),
            67..73 => self.json_patch(),
            73..79 => self.merge("strategic"),
            79..87 => self.apply(),
            87..96 => self.delete(),
            96..98 => self.delete_collection(),
            _ => self.broken(),
        }
    }

    fn object_path(&self) -> String {
        format!("{}/{}", self.kind.path, self.name)
    }

    /// The object's path, or that of a part of it.
    fn some_part(&mut self) -> String {
        let part = match self.dice.below(10) {
            0..2 if self.kind.status => "/status",
            2 if self.kind.scale => "/scale",
            3 if self.dice.one_in(4) => "/unheard",
            _ => "",
        };
        format!("{}{part}", self.object_path())
    }

    fn keep(&self, ask: Ask) -> Ask {
        let place = |part: &str, pointer: &str| (format!("{part}-{}", self.key), pointer.to_owned());
        let keep = [place("version", "/metadata/resourceVersion"), place("uid", "/metadata/uid")].into();
        Ask { keep, ..ask }
    }

    /// What a write may ask for besides.
    fn options(&mut self) -> String {
        let mut options = vec![];
        if self.dice.one_in(6) {
            options.push(*self.dice.pick(&["dryRun=All", "dryRun=All", "dryRun=Some"]));
        }
        if self.dice.one_in(4) {
            let of = ["fieldValidation=Strict", "fieldValidation=Warn", "fieldValidation=Ignore", "fieldValidation=No"];
            options.push(*self.dice.pick(&of));
        }
        if self.dice.one_in(6) {
            options.push(*self.dice.pick(&["fieldManager=one", "fieldManager=two"]));
        }
        if options.is_empty() { String::new() } else { format!("?{}", options.join("&")) }
    }

    fn metadata(&mut self) -> Map<String, Value> {
        let mut metadata = Map::new();
        metadata.insert("name".into(), json!(self.name));
        if self.kind.cluster {
            metadata.insert("labels".into(), json!({ "run": "${ns}" }));
        }
        let labels = [json!("web"), json!("db"), json!("web"), json!("not good")];
        if self.dice.one_in(2) {
            let label = self.dice.pick(&labels).clone();
            let labels = metadata.entry("labels").or_insert_with(|| json!({}));
            labels["app"] = label;
        }
        if self.dice.one_in(6) {
            metadata.insert("annotations".into(), json!({ "note": self.dice.pick(&["x", "y"]) }));
        }
        if self.dice.one_in(12) {
            let finalizers = [json!(["example.com/hold"]), json!([]), json!(["bad"])];
            metadata.insert("finalizers".into(), self.dice.pick(&finalizers).clone());
        }
        metadata
    }

    /// An object with a few fields set; one in four has something wrong with it.
    fn object(&mut self) -> Map<String, Value> {
        let mut object = Value::Object(self.kind.object.clone());
        let metadata = self.metadata();
        object["metadata"] = Value::Object(metadata);
        for (place, value) in self.changes() {
            set(&mut object, &place, value);
        }
        match object {
            Value::Object(object) => object,
            _ => Map::new(),
        }
    }

    fn changes(&mut self) -> Vec<(String, Value)> {
        let mut changes = vec![];
        for _ in 0..self.dice.below(3) {
            changes.extend(self.change(&self.kind.fields));
        }
        if self.dice.one_in(4) {
            changes.extend(self.change(&self.kind.wrong));
        }
        changes
    }

    fn change(&mut self, fields: &BTreeMap<String, Vec<Value>>) -> Option<(String, Value)> {
        let places: Vec<&String> = fields.keys().collect();
        let place = (*self.dice.choose(&places)?).clone();
        let value = self.dice.choose(&fields[&place])?.clone();
        Some((place, value))
    }

    fn create(&mut self) -> Ask {
        let mut object = self.object();
        let path = format!("{}{}", self.kind.path, self.options());
        if self.dice.one_in(12)
            && let Some(Value::Object(metadata)) = object.get_mut("metadata")
            && !self.kind.cluster
        {
            metadata.remove("name");
            // From a prefix of its own: else the letters that each side adds would decide the order of lists.
            metadata.insert("generateName".into(), json!(format!("made-{}-", self.number)));
            return Ask::new("POST", path).with("json", Body::Json(Value::Object(object)));
        }
        self.keep(Ask::new("POST", path).with("json", Body::Json(Value::Object(object))))
    }

    fn get(&mut self) -> Ask {
        let path = self.some_part();
        match path.ends_with(&self.name) {
            true => self.keep(Ask::new("GET", path)),
            false => Ask::new("GET", path),
        }
    }

    fn list(&mut self) -> Ask {
        let of = [
            "labelSelector=app%3Dweb",
            "labelSelector=app!%3Dweb",
            "labelSelector=app",
            "labelSelector=app+in+(web,db)",
            "labelSelector=!app",
            "fieldSelector=metadata.name%3Da",
            "fieldSelector=metadata.name!%3Da",
            "fieldSelector=status.phase%3DRunning",
            "labelSelector=a+b",
            "limit=1",
            "limit=2",
            "resourceVersion=0",
            "resourceVersion=soon",
        ];
        let mine = if self.kind.cluster { "labelSelector=run%3D${ns}" } else { "" };
        match self.dice.one_in(2) || self.kind.cluster {
            true => Ask::new("GET", format!("{}?{mine}", self.kind.path)),
            false => Ask::new("GET", format!("{}?{}", self.kind.path, self.dice.pick(&of))),
        }
    }

    fn update(&mut self) -> Ask {
        let mut object = self.object();
        let path = format!("{}{}", self.some_part(), self.options());
        if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            let version = match self.dice.below(4) {
                0 => "${version-KEY:1}",
                1 => "1",
                _ => "",
            };
            if !version.is_empty() {
                metadata.insert("resourceVersion".into(), json!(version.replace("KEY", &self.key)));
            }
            if self.dice.one_in(12) {
                let uid = ["00000000-0000-4000-8000-000000000000", "${uid-KEY:none}"];
                metadata.insert("uid".into(), json!(self.dice.pick(&uid).replace("KEY", &self.key)));
            }
        }
        self.keep(Ask::new("PUT", path).with("json", Body::Json(Value::Object(object))))
    }

    fn merge(&mut self, word: &str) -> Ask {
        let mut patch = json!({});
        for (place, value) in self.changes() {
            let value = if self.dice.one_in(5) { Value::Null } else { value };
            // A merge patch knows no places inside of lists.
            match place.split_once("/0/") {
                Some(_) => {}
                None => set(&mut patch, &place, value),
            }
        }
        if self.dice.one_in(3) {
            let labels = [json!("web"), json!("db"), Value::Null];
            set(&mut patch, "/metadata/labels/app", self.dice.pick(&labels).clone());
        }
        if self.dice.one_in(6) {
            set(&mut patch, "/metadata/finalizers", Value::Null);
        }
        if self.dice.one_in(10) {
            set(&mut patch, "/metadata/resourceVersion", json!(format!("${{version-{}:1}}", self.key)));
        }
        let path = format!("{}{}", self.some_part(), self.options());
        self.keep(Ask::new("PATCH", path).with(word, Body::Json(patch)))
    }

    fn json_patch(&mut self) -> Ask {
        let mut operations = vec![];
        for (place, value) in self.changes() {
            operations.push(match self.dice.below(4) {
                0 => json!({ "op": "remove", "path": place }),
                1 => json!({ "op": "test", "path": place, "value": value }),
                2 => json!({ "op": "replace", "path": place, "value": value }),
                _ => json!({ "op": "add", "path": place, "value": value }),
            });
        }
        let path = format!("{}{}", self.some_part(), self.options());
        self.keep(Ask::new("PATCH", path).with("json-patch", Body::Json(Value::Array(operations))))
    }

    fn apply(&mut self) -> Ask {
        let mut object = json!({ "apiVersion": self.kind.object["apiVersion"], "kind": self.kind.object["kind"] });
        object["metadata"] = Value::Object(self.metadata());
        if self.dice.one_in(2)
            && let Some(spec) = self.kind.object.get("spec")
        {
            object["spec"] = spec.clone();
        }
        for (place, value) in self.changes() {
            set(&mut object, &place, value);
        }
        let manager = *self.dice.pick(&["one", "two"]);
        let force = if self.dice.one_in(3) { "&force=true" } else { "" };
        let path = format!("{}?fieldManager={manager}{force}", self.some_part());
        self.keep(Ask::new("PATCH", path).with("apply", Body::Json(object)))
    }

    fn delete(&mut self) -> Ask {
        let path = self.object_path();
        let key = &self.key;
        let options = [
            json!({ "preconditions": { "uid": format!("${{uid-{key}:none}}") } }),
            json!({ "preconditions": { "uid": "00000000-0000-4000-8000-000000000000" } }),
            json!({ "preconditions": { "resourceVersion": format!("${{version-{key}:1}}") } }),
            json!({ "propagationPolicy": "Orphan" }),
            json!({ "propagationPolicy": "Foreground" }),
            json!({ "propagationPolicy": "Background" }),
            json!({ "propagationPolicy": "Sideways" }),
            json!({ "gracePeriodSeconds": 0 }),
            json!({ "gracePeriodSeconds": 10 }),
            json!({ "dryRun": ["All"] }),
        ];
        match self.dice.one_in(2) {
            true => Ask::new("DELETE", path),
            false => Ask::new("DELETE", path).with("json", Body::Json(self.dice.pick(&options).clone())),
        }
    }

    fn delete_collection(&mut self) -> Ask {
        let of = ["labelSelector=app%3Dweb", "fieldSelector=metadata.name%3Da", "labelSelector=app"];
        let selector = if self.kind.cluster { "labelSelector=run%3D${ns},app%3Dweb" } else { *self.dice.pick(&of) };
        Ask::new("DELETE", format!("{}?{selector}", self.kind.path))
    }

    fn broken(&mut self) -> Ask {
        let text = Body::Text((*self.dice.pick(&BROKEN)).into());
        let object = self.object_path();
        match self.dice.below(4) {
            0 => Ask::new("POST", self.kind.path.clone()).with("json", text),
            1 => Ask::new("PUT", object).with("json", text),
            2 => {
                let form = *self.dice.pick(&["merge", "json-patch", "apply", "strategic"]);
                Ask::new("PATCH", object).with(form, text)
            }
            _ => Ask::new("DELETE", object).with("json", text),
        }
    }
}

/// Sets a place, making what is missing on the way to it.
fn set(object: &mut Value, place: &str, value: Value) {
    let mut at = object;
    for part in place.trim_start_matches('/').split('/') {
        at = match at {
            Value::Array(items) => match part.parse::<usize>().ok().and_then(|index| items.get_mut(index)) {
                Some(item) => item,
                None => return,
            },
            Value::Object(fields) => fields.entry(part).or_insert_with(|| json!({})),
            other => {
                *other = json!({});
                &mut other[part]
            }
        };
    }
    *at = value;
}

/// Chance that is the same for the same seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn new(seed: u64, episode: u64) -> Self {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ episode.wrapping_mul(0xD1B5_4A32_D192_ED03));
        dice.next();
        dice
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    fn one_in(&mut self, sides: usize) -> bool {
        self.below(sides) == 0
    }

    fn choose<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        if of.is_empty() { None } else { of.get(self.below(of.len())) }
    }

    /// Of a list that is not empty.
    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

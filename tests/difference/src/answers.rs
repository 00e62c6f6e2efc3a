//! How a script is played to one server, and what comes back.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use http::{HeaderMap, Request, Response, header};
use http_body_util::BodyExt;
use kube::client::Body as Stream;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::error::{Error, Result};
use crate::normal::Normal;
use crate::script::{Ask, Body, Reading, Script, Step};
use crate::side::Connection;

/// How long something may take that a server does on its own, or an event that has to come.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(50);

/// The answer to one step, made equal where chance decides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answered {
    pub step: String,
    pub answer: Value,
}

/// One play of one script.
struct Play<'a> {
    script: &'a Script,
    connection: &'a Connection<'a>,
    kept: BTreeMap<String, String>,
    watches: BTreeMap<String, Watch>,
    normal: Normal,
    step: String,
}

pub(crate) async fn play(connection: &Connection<'_>, script: &Script, namespace: &str) -> Result<Vec<Answered>> {
    let mut play = Play {
        script,
        connection,
        kept: [("ns".to_owned(), namespace.to_owned())].into(),
        watches: BTreeMap::new(),
        normal: Normal::new(namespace),
        step: "preparation".into(),
    };
    play.prepare(namespace).await?;
    let mut answers = vec![];
    for (number, step) in script.steps.iter().enumerate() {
        play.step = format!("step {}: {}", number + 1, step.title());
        let answer = play.answer(step).await?;
        answers.push(Answered { step: step.title(), answer });
    }
    Ok(answers)
}

impl Play<'_> {
    fn failed(&self, cause: impl ToString) -> Error {
        Error::Step { script: self.script.name.clone(), step: self.step.clone(), cause: cause.to_string() }
    }

    /// Makes the script's namespace, and has its kinds served.
    async fn prepare(&mut self, namespace: &str) -> Result<()> {
        let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
        self.make("/api/v1/namespaces", object).await?;
        // A controller makes it, and none runs here. Without a token, so that no volume is added to pods.
        let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "default" },
                              "automountServiceAccountToken": false });
        self.make(&format!("/api/v1/namespaces/{namespace}/serviceaccounts"), account).await?;
        for definition in self.script.definitions.clone() {
            let definition = self.filled_in(&definition)?;
            let (group, plural) = (&definition["spec"]["group"], &definition["spec"]["names"]["plural"]);
            let (group, plural) = (group.as_str().unwrap_or_default(), plural.as_str().unwrap_or_default());
            let served = definition["spec"]["versions"].as_array().cloned().unwrap_or_default();
            let paths: Vec<String> = served
                .iter()
                .filter(|version| version["served"] == true)
                .map(|version| format!("/apis/{group}/{}/{plural}", version["name"].as_str().unwrap_or_default()))
                .collect();
            self.make("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition.clone()).await?;
            for path in paths {
                let until = [("code".to_owned(), json!(200))].into();
                self.exchange(&Ask { until, ..Ask::new("GET", path) }).await?;
            }
        }
        Ok(())
    }

    async fn make(&mut self, path: &str, object: Value) -> Result<()> {
        let answer = self.exchange(&Ask::new("POST", path).with("json", Body::Json(object))).await?;
        match answer["code"].as_u64() {
            // Generated scripts share their definitions.
            Some(201 | 409) => Ok(()),
            _ => Err(self.failed(answer)),
        }
    }

    async fn answer(&mut self, step: &Step) -> Result<Value> {
        match step {
            Step::Ask(ask) => {
                if let Body::Json(body) = &ask.body
                    && let Some(Value::String(prefix)) = self.filled_in(body)?.pointer("/metadata/generateName")
                {
                    self.normal.expect_generated(prefix);
                }
                let mut answer = self.exchange(ask).await?;
                self.keep(ask, &answer)?;
                show_only(&mut answer, &ask.show);
                self.normal.value(&mut answer);
                Ok(answer)
            }
            Step::Watch { watch, ask } => {
                let response = self.send(ask).await?;
                if response.status() == 200 {
                    let head = head(&response);
                    self.watches.insert(watch.clone(), Watch::new(response.into_body()));
                    return Ok(Value::Object(head));
                }
                let mut answer = whole(response).await.map_err(|error| self.failed(error))?;
                self.normal.value(&mut answer);
                Ok(answer)
            }
            Step::Read { watch, until } => {
                let until = match until {
                    Reading::To(name) => Reading::To(self.filled_in_text(name)?),
                    other => other.clone(),
                };
                let Some(watch) = self.watches.get_mut(watch) else { return Ok(json!("no such watch is open")) };
                let mut answer = watch.read(&until).await;
                self.normal.value(&mut answer);
                Ok(answer)
            }
            Step::Compact => self.connection.compact().map(|()| Value::Null).map_err(|error| self.failed(error)),
        }
    }

    /// Asks, and asks again for as long as the script waits for something.
    async fn exchange(&mut self, ask: &Ask) -> Result<Value> {
        let started = Instant::now();
        loop {
            let response = self.send(ask).await?;
            let answer = whole(response).await.map_err(|error| self.failed(error))?;
            let holds = ask.until.iter().all(|(place, wanted)| match place.as_str() {
                "code" => answer["code"] == *wanted,
                pointer => answer["body"].pointer(pointer) == Some(wanted),
            });
            if holds || started.elapsed() > PATIENCE {
                return Ok(answer);
            }
            sleep(PAUSE).await;
        }
    }

    async fn send(&self, ask: &Ask) -> Result<Response<Stream>> {
        let mut request = Request::builder().method(ask.method.as_str()).uri(self.filled_in_text(&ask.path)?);
        for (name, value) in &ask.headers {
            request = request.header(name, self.filled_in_text(value)?);
        }
        let body = match &ask.body {
            Body::None => String::new(),
            Body::Json(value) => self.filled_in(value)?.to_string(),
            Body::Text(text) => self.filled_in_text(text)?,
            Body::Padded(value, blanks) => format!("{}{}", self.filled_in(value)?, " ".repeat(*blanks)),
        };
        let request = request.body(Stream::from(body.into_bytes())).map_err(|error| self.failed(error))?;
        self.connection.send(request).await.map_err(|error| self.failed(error))
    }

    fn keep(&mut self, ask: &Ask, answer: &Value) -> Result<()> {
        for (name, pointer) in &ask.keep {
            match answer["body"].pointer(pointer).cloned() {
                Some(Value::String(text)) => drop(self.kept.insert(name.clone(), text)),
                Some(other) => drop(self.kept.insert(name.clone(), other.to_string())),
                // What a generated request wanted to keep may not be there; then the last one holds.
                None => {}
            }
        }
        Ok(())
    }

    fn filled_in(&self, value: &Value) -> Result<Value> {
        Ok(match value {
            Value::String(text) => Value::String(self.filled_in_text(text)?),
            Value::Array(items) => Value::Array(items.iter().map(|item| self.filled_in(item)).collect::<Result<_>>()?),
            Value::Object(fields) => {
                let filled =
                    fields.iter().map(|(name, value)| Ok((self.filled_in_text(name)?, self.filled_in(value)?)));
                Value::Object(filled.collect::<Result<_>>()?)
            }
            other => other.clone(),
        })
    }

    fn filled_in_text(&self, text: &str) -> Result<String> {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, from)) = rest.split_once("${") {
            let (name, after) =
                from.split_once('}').ok_or_else(|| self.failed(format!("`{text}` has no closing }}")))?;
            let (name, otherwise) = name.split_once(':').unwrap_or((name, ""));
            filled.push_str(before);
            filled.push_str(self.kept.get(name).map_or(otherwise, String::as_str));
            rest = after;
        }
        filled.push_str(rest);
        Ok(filled)
    }
}

/// What an answer says besides its body.
fn head<B>(response: &Response<B>) -> Map<String, Value> {
    let mut head = Map::new();
    head.insert("code".into(), json!(response.status().as_u16()));
    let kind = first(response.headers(), header::CONTENT_TYPE.as_str());
    if kind != "application/json" {
        head.insert("contentType".into(), json!(kind));
    }
    let warnings = response.headers().get_all("warning");
    let warnings: Vec<_> = warnings.iter().map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
    if !warnings.is_empty() {
        head.insert("warnings".into(), json!(warnings));
    }
    for (name, field) in [("retry-after", "retryAfter"), ("allow", "allow")] {
        let value = first(response.headers(), name);
        if !value.is_empty() {
            head.insert(field.into(), json!(value));
        }
    }
    head
}

fn first(headers: &HeaderMap, name: &str) -> String {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).unwrap_or_default()
}

async fn whole(response: Response<Stream>) -> std::result::Result<Value, String> {
    let mut answer = head(&response);
    let collected = timeout(PATIENCE, response.into_body().collect()).await;
    let bytes = collected.map_err(|_| "the answer does not end")?.map_err(|error| error.to_string())?.to_bytes();
    let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes)));
    answer.insert("body".into(), body);
    Ok(Value::Object(answer))
}

fn show_only(answer: &mut Value, places: &[String]) {
    if places.is_empty() {
        return;
    }
    let shown = places.iter().map(|place| (place.clone(), answer["body"].pointer(place).cloned().unwrap_or_default()));
    answer["body"] = Value::Object(shown.collect());
}

/// A watch that is open.
struct Watch {
    stream: Stream,
    rest: Vec<u8>,
    lines: VecDeque<Value>,
    ended: bool,
}

impl Watch {
    fn new(stream: Stream) -> Self {
        Watch { stream, rest: vec![], lines: VecDeque::new(), ended: false }
    }

    async fn read(&mut self, until: &Reading) -> Value {
        let mut events = vec![];
        let reached = |events: &[Value]| match until {
            Reading::Events(count) => events.len() >= *count,
            Reading::To(name) => events.last().is_some_and(|event| event["object"]["metadata"]["name"] == *name),
            Reading::End => false,
        };
        while !reached(&events) {
            match timeout(PATIENCE, self.next()).await {
                Ok(Some(event)) if is_reminder(&event) => {}
                Ok(Some(event)) => events.push(event),
                Ok(None) => return json!({ "events": events, "ended": true }),
                Err(_) => return json!({ "events": events, "silent": true }),
            }
        }
        json!({ "events": events })
    }

    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return Some(line);
            }
            if self.ended {
                return None;
            }
            match self.stream.frame().await {
                Some(Ok(frame)) => {
                    self.rest.extend_from_slice(frame.data_ref().map(|data| &data[..]).unwrap_or_default())
                }
                // What has no end of its own ends with the stream.
                _ => {
                    self.ended = true;
                    self.rest.push(b'\n');
                }
            }
            while let Some(end) = self.rest.iter().position(|letter| *letter == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                if line.trim_ascii().is_empty() {
                    continue;
                }
                let text = || json!(String::from_utf8_lossy(&line));
                self.lines.push_back(serde_json::from_slice(&line).unwrap_or_else(|_| text()));
            }
        }
    }
}

/// A bookmark that only says how far the server is: when it comes is up to the server.
fn is_reminder(event: &Value) -> bool {
    event["type"] == "BOOKMARK" && event["object"]["metadata"].get("annotations").is_none()
}

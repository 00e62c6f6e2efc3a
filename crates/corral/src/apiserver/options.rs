//! The options that a write can be given in its URL.

use std::sync::OnceLock;

use serde_json::{Value, json};

use super::{
    admission::Operation,
    request::Query,
    status::{Answer, FieldError, invalid},
    write::Intent,
};

/// The name of a manager has at most this many bytes.
pub(crate) const MANAGER_LIMIT: usize = 128;

/// What is done about fields that a kind does not have, or that an object has twice.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// How a write is to be done.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteOptions {
    /// The write ends before its commit.
    pub dry_run: bool,
    pub validation: FieldValidation,
    /// In whose name fields are managed; empty if the client did not say.
    pub field_manager: String,
    /// Whether an apply takes fields from other managers.
    pub force: Option<bool>,
}

impl WriteOptions {
    /// The options of whoever states none, and wants no warnings.
    pub fn plain() -> &'static Self {
        static PLAIN: OnceLock<WriteOptions> = OnceLock::new();
        PLAIN.get_or_init(|| WriteOptions { validation: FieldValidation::Ignore, ..WriteOptions::default() })
    }

    /// Reads the options of a create, an update or a patch; `kind` is what the original calls them.
    pub fn read(query: &Query, kind: &str, is_apply: bool) -> Answer<Self> {
        let mut errors = vec![];
        if kind == "PatchOptions" {
            if is_apply && query.field_manager.is_empty() {
                errors.push(FieldError::required("fieldManager", "is required for apply patch"));
            }
            if !is_apply && query.force.is_some() {
                errors.push(FieldError::forbidden("force", "may not be specified for non-apply patch"));
            }
        }
        check_manager(&query.field_manager, &mut errors);
        check_dry_run(&query.dry_run, &mut errors);
        let validation = match query.field_validation.as_str() {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let known = ["", "Ignore", "Strict", "Warn"].map(String::from);
                errors.push(FieldError::unsupported("fieldValidation", &json!(other), &known));
                FieldValidation::Strict
            }
        };
        if !errors.is_empty() {
            return Err(invalid("meta.k8s.io", kind, "", &errors));
        }
        Ok(WriteOptions {
            dry_run: !query.dry_run.is_empty(),
            validation,
            field_manager: query.field_manager.clone(),
            force: query.force,
        })
    }

    /// As an admission review shows them.
    pub fn to_json(&self, operation: Operation, intent: &Intent) -> Value {
        // Those of a patch are shown as those of the update or the create that it comes to.
        let kind = match operation {
            Operation::Create => "CreateOptions",
            Operation::Update => "UpdateOptions",
            Operation::Delete => "DeleteOptions",
        };
        let mut options = json!({ "kind": kind, "apiVersion": "meta.k8s.io/v1" });
        if self.dry_run {
            options["dryRun"] = json!(["All"]);
        }
        if let Intent::Delete(delete) = intent {
            delete.describe(&mut options);
            return options;
        }
        if !self.field_manager.is_empty() {
            options["fieldManager"] = json!(self.field_manager);
        }
        let validation = match self.validation {
            FieldValidation::Ignore => "Ignore",
            FieldValidation::Warn => return options,
            FieldValidation::Strict => "Strict",
        };
        options["fieldValidation"] = json!(validation);
        options
    }
}

/// The one value that a dry run can have.
pub(crate) fn check_dry_run(values: &[String], errors: &mut Vec<FieldError>) {
    if values.iter().any(|value| value != "All") {
        errors.push(FieldError::unsupported("dryRun", &json!(values), &["All".into()]));
    }
}

fn check_manager(name: &str, errors: &mut Vec<FieldError>) {
    if name.len() > MANAGER_LIMIT {
        errors.push(FieldError::too_long("fieldManager", MANAGER_LIMIT as u64));
    }
    for (place, letter) in name.char_indices().filter(|(_, letter)| letter.is_control()) {
        let why = format!("invalid character U+{:04X} (at position {place})", u32::from(letter));
        errors.push(FieldError::invalid("fieldManager", &json!(name), &why));
    }
}

//! Built-in kinds that are served in two forms with different fields, and are the same objects in both. They are kept in
//! the form of their storage version.

use super::{autoscaler_forms, event_forms, object::Object};

/// The form that is not kept.
pub(crate) struct Form {
    api_version: &'static str,
    kind: &'static str,
    /// The name under which the shape of such objects is known.
    pub shape: &'static str,
    /// Shows an object that is kept in this form.
    pub show: fn(&mut Object),
    /// Makes an object of this form one that can be kept.
    pub keep: fn(&mut Object),
}

static FORMS: [Form; 2] = [
    Form {
        api_version: event_forms::NEWER,
        kind: "Event",
        shape: "events.events.k8s.io",
        show: event_forms::to_newer,
        keep: event_forms::to_kept,
    },
    Form {
        api_version: autoscaler_forms::OLDER,
        kind: "HorizontalPodAutoscaler",
        shape: "horizontalpodautoscalers.v1.autoscaling",
        show: autoscaler_forms::to_older,
        keep: autoscaler_forms::to_kept,
    },
];

/// The form of a kind in a version, if it is not the one that is kept.
pub(crate) fn of(api_version: &str, kind: &str) -> Option<&'static Form> {
    FORMS.iter().find(|form| form.kind == kind && form.api_version == api_version)
}

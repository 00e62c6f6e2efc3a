//! What stands between a request and the store: webhooks, aggregated APIs, and the endpoints behind them.

use super::shelf::projections;
use super::wire::{seen, shelves};
use super::{Amounts, Condition, Meta};

seen! {
    ValidatingWebhookConfiguration {
        metadata: Meta,
        webhooks: Vec<Webhook>,
    }
    MutatingWebhookConfiguration {
        metadata: Meta,
        webhooks: Vec<Webhook>,
    }
    Webhook {
        name: String,
        /// `Fail` where it is not given.
        failure_policy: String,
        client_config: ClientConfig,
        rules: Vec<Rule>,
    }
    ClientConfig {
        service: Option<ServiceName>,
        url: String,
    }
    ServiceName {
        namespace: String,
        name: String,
    }
    Rule {
        resources: Vec<String>,
    }

    EndpointSlice {
        metadata: Meta,
        address_type: String,
        endpoints: Vec<Endpoint>,
        ports: Vec<Port>,
    }
    Endpoint {
        addresses: Vec<String>,
        conditions: EndpointConditions,
        node_name: String,
    }
    EndpointConditions {
        /// Absent means ready.
        ready: Option<bool>,
    }
    Port {
        port: u16,
    }

    ApiService {
        metadata: Meta,
        spec: ApiServiceSpec,
        status: ApiServiceStatus,
    }
    ApiServiceSpec {
        service: Option<ServiceName>,
    }
    ApiServiceStatus {
        conditions: Vec<Condition>,
    }

    /// How much a namespace may use.
    Quota {
        metadata: Meta,
        status: QuotaStatus,
    }
    QuotaStatus {
        hard: Amounts,
        used: Amounts,
    }

    /// The definition of a custom kind.
    Definition {
        metadata: Meta,
        spec: DefinitionSpec,
        status: DefinitionStatus,
    }
    DefinitionSpec {
        versions: Vec<DefinitionVersion>,
        conversion: Conversion,
    }
    Conversion {
        webhook: Option<ConversionWebhook>,
    }
    ConversionWebhook {
        client_config: ClientConfig,
    }
    DefinitionVersion {
        name: String,
        served: bool,
    }
    DefinitionStatus {
        stored_versions: Vec<String>,
    }
}

/// The label of an EndpointSlice: its Service.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";

impl Webhook {
    /// While its server does not answer, requests are refused.
    pub fn is_strict(&self) -> bool {
        self.failure_policy != "Ignore"
    }
}

impl Endpoint {
    pub fn is_ready(&self) -> bool {
        self.conditions.ready != Some(false)
    }
}

projections! {
    ValidatingWebhookConfiguration => "ValidatingWebhookConfiguration",
    MutatingWebhookConfiguration => "MutatingWebhookConfiguration",
    EndpointSlice => "EndpointSlice",
    ApiService => "APIService",
    Definition => "CustomResourceDefinition",
    Quota => "ResourceQuota",
}

shelves! {
    Admission {
        validating: ValidatingWebhookConfiguration =
            ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
        mutating: MutatingWebhookConfiguration = ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
        endpoint_slices: EndpointSlice = ("discovery.k8s.io", "EndpointSlice"),
        api_services: ApiService = ("apiregistration.k8s.io", "APIService"),
        definitions: Definition = ("apiextensions.k8s.io", "CustomResourceDefinition"),
        quotas: Quota = ("", "ResourceQuota"),
    }
}

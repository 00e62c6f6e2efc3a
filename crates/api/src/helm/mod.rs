//! The kinds of helm-controller, and what Helm keeps of its releases. See <https://docs.rke2.io/helm>.

pub mod helm_chart;
pub mod helm_chart_config;
pub mod release;

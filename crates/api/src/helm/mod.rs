//! The kinds of helm-controller. See <https://docs.rke2.io/helm>.

pub mod helm_chart_config;

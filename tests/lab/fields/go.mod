module drover.dev/lab/fields

go 1.24.0

require (
	k8s.io/apiextensions-apiserver v0.34.4
	k8s.io/client-go v0.34.4
	k8s.io/kube-aggregator v0.34.4
)

package cluster

import (
	"context"

	"github.com/kloop-dev/kloop/server/httpapi/health"
	"github.com/kloop-dev/kloop/store"
)

// storeAnswers is a check that the store can be asked for its newest revision.
func storeAnswers(name string, st store.Store) health.Check {
	return health.Check{Name: name, Run: func(ctx context.Context) error { _, err := st.Revision(ctx); return err }}
}

// reached is the check of what has happened before the API answers anything: parts start one after the other, and the view,
// what every cluster has from the start and the definitions come before the API (Cluster.parts).
func reached(context.Context) error { return nil }

// hooks are upstream's names for what it starts before it is healthy, in its order, as monitoring asks for them.
var hooks = []string{"start-apiserver-admission-initializer", "generic-apiserver-start-informers",
	"priority-and-fairness-config-consumer", "priority-and-fairness-filter", "storage-object-count-tracker-hook",
	"start-apiextensions-informers", "start-apiextensions-controllers", "crd-informer-synced", "start-system-namespaces-controller",
	"peer-endpoint-reconciler-controller",
	"start-cluster-authentication-info-controller", "start-kube-apiserver-identity-lease-controller",
	"start-kube-apiserver-identity-lease-garbage-collector", "storage-readiness", "start-legacy-token-tracking-controller",
	"start-service-ip-repair-controllers", "rbac/bootstrap-roles", "scheduling/bootstrap-system-priority-classes",
	"priority-and-fairness-config-producer", "bootstrap-controller", "start-kubernetes-service-cidr-controller",
	"aggregator-reload-proxy-client-cert", "start-kube-aggregator-informers", "apiservice-status-local-available-controller",
	"apiservice-status-remote-available-controller", "apiservice-registration-controller", "apiservice-discovery-controller",
	"kube-apiserver-autoregistration", "apiservice-openapi-controller", "apiservice-openapiv3-controller"}

// started are the checks of what has happened before the API answers.
func started() (list []health.Check) {
	for _, name := range hooks {
		list = append(list, health.Check{Name: "poststarthook/" + name, Run: reached})
		if name == "kube-apiserver-autoregistration" {
			list = append(list, health.Check{Name: "autoregister-completion", Run: reached})
		}
	}
	return list
}

package cluster

import (
	"context"

	httpapi "github.com/kloop-dev/kloop/server/http"
	"github.com/kloop-dev/kloop/store"
)

// storeAnswers is a check that the store can be asked for its newest revision.
func storeAnswers(name string, st store.Store) httpapi.Check {
	return httpapi.Check{Name: name, Run: func(ctx context.Context) error { _, err := st.Revision(ctx); return err }}
}

// reached is the check of what has happened before the API answers anything: parts start one after the other, and the view,
// what every cluster has from the start and the definitions come before the API (Cluster.parts).
func reached(context.Context) error { return nil }

// started are the checks of that, by upstream's names.
func started() (list []httpapi.Check) {
	for _, name := range []string{"crd-informer-synced", "priority-and-fairness-config-producer", "rbac/bootstrap-roles", "scheduling/bootstrap-system-priority-classes"} {
		list = append(list, httpapi.Check{Name: "poststarthook/" + name, Run: reached})
	}
	return list
}

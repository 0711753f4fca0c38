package engine

import (
	"github.com/kloop-dev/kloop/controllers/clusterroleaggregation"
	"github.com/kloop-dev/kloop/controllers/garbage"
	"github.com/kloop-dev/kloop/controllers/namespace"
	"github.com/kloop-dev/kloop/controllers/rootca"
	"github.com/kloop-dev/kloop/controllers/serviceaccount"
	"github.com/kloop-dev/kloop/kit"
)

// loops are the loops that any control plane needs, with upstream's names.
func loops(c kit.Cluster) ([]kit.Entry, error) {
	return []kit.Entry{
		{Loop: serviceaccount.Controller, Account: "service-account-controller", Component: "serviceaccount-controller"},
		{Loop: rootca.Controller(c.RootCA), Account: "root-ca-cert-publisher", Component: "root-ca-cert-publisher"},
		{Loop: namespace.Controller(c.Others), Account: "namespace-controller", Component: "namespace-controller"},
		{Loop: garbage.Controller(c.Kinds), Account: "generic-garbage-collector", Component: "garbage-collector"},
		{Loop: clusterroleaggregation.Controller, Account: "clusterrole-aggregation-controller",
			Component: "clusterrole-aggregation-controller"},
	}, nil
}

package engine

import (
	"context"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/kinds/admissionregistration"
	"github.com/kloop-dev/kloop/kinds/apiextensions"
	"github.com/kloop-dev/kloop/kinds/apiregistration"
	"github.com/kloop-dev/kloop/kinds/authentication"
	"github.com/kloop-dev/kloop/kinds/authorization"
	"github.com/kloop-dev/kloop/kinds/certificates"
	"github.com/kloop-dev/kloop/kinds/coordination"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/discovery"
	"github.com/kloop-dev/kloop/kinds/flowcontrol"
	"github.com/kloop-dev/kloop/kinds/networking"
	"github.com/kloop-dev/kloop/kinds/rbac"
	"github.com/kloop-dev/kloop/kinds/served"
	"github.com/kloop-dev/kloop/resource"
)

// builtIn are the kinds of a control plane without pods: those that say how the API works, and those of v1, which upstream can not switch
// off either. Groups that are not imported are not linked, and of needNodes no more than it takes to read their objects. notServed names
// those that only the server itself uses.
func builtIn() []resource.Kind {
	return append(needNodes(),
		core.Bindings, core.ComponentStatuses, core.ConfigMaps, core.Endpoints, core.Events, core.LimitRanges, core.Namespaces,
		core.ResourceQuotas, core.Secrets, core.ServiceAccounts, core.Services,
		admissionregistration.MutatingAdmissionPolicies, admissionregistration.MutatingAdmissionPolicyBindings,
		admissionregistration.MutatingWebhookConfigurations, admissionregistration.ValidatingAdmissionPolicies,
		admissionregistration.ValidatingAdmissionPolicyBindings, admissionregistration.ValidatingWebhookConfigurations,
		apiextensions.CustomResourceDefinitions,
		apiregistration.APIServices,
		authentication.SelfSubjectReviews, authentication.TokenReviews,
		authorization.LocalSubjectAccessReviews, authorization.SelfSubjectAccessReviews, authorization.SelfSubjectRulesReviews,
		authorization.SubjectAccessReviews,
		certificates.CertificateSigningRequests, // the others of the group are for volumes of pods
		coordination.Leases,
		discovery.EndpointSlices,
		flowcontrol.FlowSchemas, flowcontrol.PriorityLevelConfigurations,
		networking.IPAddresses, networking.ServiceCIDRs, // of the addresses of Services; not served
		rbac.ClusterRoleBindings, rbac.ClusterRoles, rbac.RoleBindings, rbac.Roles,
	)
}

// needNodes are kinds of v1 of which a control plane without nodes has no objects. Clients find them as in any cluster.
func needNodes() []resource.Kind {
	return []resource.Kind{core.Nodes, core.PersistentVolumeClaims, core.PersistentVolumes, core.PodTemplates, core.Pods,
		core.ReplicationControllers}
}

// keepOut returns a plugin that lets nobody make objects of those kinds, or change what an older version of the program let in: their rules
// are not there. What is being deleted may lose its finalizers.
func keepOut() admission.Plugin {
	return admission.Plugin{Name: "NoNodes", Mutate: func(_ context.Context, r *admission.Request) error {
		switch {
		case r.Op != admission.Create && r.Op != admission.Update, r.Op == admission.Create && r.Sub != "",
			r.Op == admission.Update && r.Old.GetDeletionTimestamp() != nil, !slices.Contains(needNodes(), r.Kind):
			return nil
		}
		return apierrors.NewForbidden(r.Kind.Info().GR(), r.Name, errNoNodes)
	}}
}

var errNoNodes = errors.New("this is a control plane without nodes: nobody would do anything with it")

// notServed are those of them that nobody else has a use for.
func notServed() served.APIs { return served.APIs{"networking.k8s.io/v1": false} }

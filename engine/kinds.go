package engine

import (
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
	"github.com/kloop-dev/kloop/kinds/pods"
	"github.com/kloop-dev/kloop/kinds/rbac"
	"github.com/kloop-dev/kloop/kinds/served"
	"github.com/kloop-dev/kloop/resource"
)

// builtIn are the kinds of a control plane without pods: those that say how the API works, and those of v1, which upstream can not switch
// off either. Groups that are not imported are not linked. notServed names those that only the server itself uses.
func builtIn() []resource.Kind {
	return []resource.Kind{
		core.Bindings, core.ComponentStatuses, core.ConfigMaps, core.Endpoints, core.Events, core.LimitRanges, core.Namespaces, pods.Nodes,
		pods.PersistentVolumeClaims, pods.PersistentVolumes, pods.PodTemplates, pods.Pods, pods.ReplicationControllers, core.ResourceQuotas,
		core.Secrets, core.ServiceAccounts, core.Services,
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
	}
}

// notServed are those of them that nobody else has a use for.
func notServed() served.APIs { return served.APIs{"networking.k8s.io/v1": false} }

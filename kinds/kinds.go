// Package kinds is the table of all built-in kinds under one flat name each: kinds.Pods, kinds.ReplicaSets. What
// a kind is - its names, defaults, rules, columns - is written once, in the package of its group below.
package kinds

import (
	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds/admissionregistration"
	"github.com/kloop-dev/kloop/kinds/apiextensions"
	"github.com/kloop-dev/kloop/kinds/apiregistration"
	"github.com/kloop-dev/kloop/kinds/apps"
	"github.com/kloop-dev/kloop/kinds/authentication"
	"github.com/kloop-dev/kloop/kinds/authorization"
	"github.com/kloop-dev/kloop/kinds/autoscaling"
	"github.com/kloop-dev/kloop/kinds/batch"
	"github.com/kloop-dev/kloop/kinds/certificates"
	"github.com/kloop-dev/kloop/kinds/coordination"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/discovery"
	"github.com/kloop-dev/kloop/kinds/dra"
	"github.com/kloop-dev/kloop/kinds/flowcontrol"
	"github.com/kloop-dev/kloop/kinds/networking"
	"github.com/kloop-dev/kloop/kinds/node"
	"github.com/kloop-dev/kloop/kinds/pods"
	"github.com/kloop-dev/kloop/kinds/policy"
	"github.com/kloop-dev/kloop/kinds/rbac"
	"github.com/kloop-dev/kloop/kinds/scheduling"
	"github.com/kloop-dev/kloop/kinds/served"
	"github.com/kloop-dev/kloop/kinds/storage"
	"github.com/kloop-dev/kloop/kinds/storagemigration"
	"github.com/kloop-dev/kloop/resource"
)

// All kinds, by group.
var (
	Bindings               = core.Bindings
	ComponentStatuses      = core.ComponentStatuses
	ConfigMaps             = core.ConfigMaps
	Endpoints              = core.Endpoints
	Events                 = core.Events
	LimitRanges            = core.LimitRanges
	Namespaces             = core.Namespaces
	Nodes                  = pods.Nodes
	PersistentVolumeClaims = pods.PersistentVolumeClaims
	PersistentVolumes      = pods.PersistentVolumes
	PodTemplates           = pods.PodTemplates
	Pods                   = pods.Pods
	ReplicationControllers = pods.ReplicationControllers
	ResourceQuotas         = core.ResourceQuotas
	Secrets                = core.Secrets
	ServiceAccounts        = core.ServiceAccounts
	Services               = core.Services

	MutatingAdmissionPolicies         = admissionregistration.MutatingAdmissionPolicies
	MutatingAdmissionPolicyBindings   = admissionregistration.MutatingAdmissionPolicyBindings
	MutatingWebhookConfigurations     = admissionregistration.MutatingWebhookConfigurations
	ValidatingAdmissionPolicies       = admissionregistration.ValidatingAdmissionPolicies
	ValidatingAdmissionPolicyBindings = admissionregistration.ValidatingAdmissionPolicyBindings
	ValidatingWebhookConfigurations   = admissionregistration.ValidatingWebhookConfigurations

	CustomResourceDefinitions = apiextensions.CustomResourceDefinitions

	APIServices = apiregistration.APIServices

	ControllerRevisions = apps.ControllerRevisions
	DaemonSets          = apps.DaemonSets
	Deployments         = apps.Deployments
	ReplicaSets         = apps.ReplicaSets
	StatefulSets        = apps.StatefulSets

	SelfSubjectReviews = authentication.SelfSubjectReviews
	TokenReviews       = authentication.TokenReviews

	LocalSubjectAccessReviews = authorization.LocalSubjectAccessReviews
	SelfSubjectAccessReviews  = authorization.SelfSubjectAccessReviews
	SelfSubjectRulesReviews   = authorization.SelfSubjectRulesReviews
	SubjectAccessReviews      = authorization.SubjectAccessReviews

	HorizontalPodAutoscalers = autoscaling.HorizontalPodAutoscalers

	CronJobs = batch.CronJobs
	Jobs     = batch.Jobs

	CertificateSigningRequests = certificates.CertificateSigningRequests
	ClusterTrustBundles        = certificates.ClusterTrustBundles
	PodCertificateRequests     = certificates.PodCertificateRequests

	Leases = coordination.Leases

	EndpointSlices = discovery.EndpointSlices

	DeviceClasses          = dra.DeviceClasses
	DeviceTaintRules       = dra.DeviceTaintRules
	ResourceClaimTemplates = dra.ResourceClaimTemplates
	ResourceClaims         = dra.ResourceClaims
	ResourceSlices         = dra.ResourceSlices

	FlowSchemas                 = flowcontrol.FlowSchemas
	PriorityLevelConfigurations = flowcontrol.PriorityLevelConfigurations

	IPAddresses     = networking.IPAddresses
	IngressClasses  = networking.IngressClasses
	Ingresses       = networking.Ingresses
	NetworkPolicies = networking.NetworkPolicies
	ServiceCIDRs    = networking.ServiceCIDRs

	RuntimeClasses = node.RuntimeClasses

	PodDisruptionBudgets = policy.PodDisruptionBudgets

	ClusterRoleBindings = rbac.ClusterRoleBindings
	ClusterRoles        = rbac.ClusterRoles
	RoleBindings        = rbac.RoleBindings
	Roles               = rbac.Roles

	PriorityClasses = scheduling.PriorityClasses

	CSIDrivers              = storage.CSIDrivers
	CSINodes                = storage.CSINodes
	CSIStorageCapacities    = storage.CSIStorageCapacities
	StorageClasses          = storage.StorageClasses
	VolumeAttachments       = storage.VolumeAttachments
	VolumeAttributesClasses = storage.VolumeAttributesClasses

	StorageVersionMigrations = storagemigration.StorageVersionMigrations

	// EventsV1 are the events of events.k8s.io: the same kind, served under a second group.
	EventsV1 = Events
)

// All returns every kind in the order of the table. The slice is the caller's.
func All() []resource.Kind {
	return []resource.Kind{
		Bindings, ComponentStatuses, ConfigMaps, Endpoints, Events, LimitRanges, Namespaces, Nodes,
		PersistentVolumeClaims, PersistentVolumes, PodTemplates, Pods, ReplicationControllers, ResourceQuotas,
		Secrets, ServiceAccounts, Services,
		MutatingAdmissionPolicies, MutatingAdmissionPolicyBindings, MutatingWebhookConfigurations,
		ValidatingAdmissionPolicies, ValidatingAdmissionPolicyBindings, ValidatingWebhookConfigurations,
		CustomResourceDefinitions,
		APIServices,
		ControllerRevisions, DaemonSets, Deployments, ReplicaSets, StatefulSets,
		SelfSubjectReviews, TokenReviews,
		LocalSubjectAccessReviews, SelfSubjectAccessReviews, SelfSubjectRulesReviews, SubjectAccessReviews,
		HorizontalPodAutoscalers,
		CronJobs, Jobs,
		CertificateSigningRequests, ClusterTrustBundles, PodCertificateRequests,
		Leases,
		EndpointSlices,
		DeviceClasses, DeviceTaintRules, ResourceClaimTemplates, ResourceClaims, ResourceSlices,
		FlowSchemas, PriorityLevelConfigurations,
		IPAddresses, IngressClasses, Ingresses, NetworkPolicies, ServiceCIDRs,
		RuntimeClasses,
		PodDisruptionBudgets,
		ClusterRoleBindings, ClusterRoles, RoleBindings, Roles,
		PriorityClasses,
		CSIDrivers, CSINodes, CSIStorageCapacities, StorageClasses, VolumeAttachments, VolumeAttributesClasses,
		StorageVersionMigrations,
	}
}

// SetFor returns a set of all of them for a cluster where this is on and these are served.
func SetFor(on *features.Set, apis served.APIs) *resource.Set { return served.Set(on, apis, All()) }

// NewSet returns a set of all of them, to which custom kinds may be added.
func NewSet() *resource.Set { return resource.NewSet(All()...) }

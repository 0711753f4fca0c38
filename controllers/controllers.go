// Package controllers is the table of the loops that keep a cluster converged. One folder each; every one
// starts with what it reads, what it writes, and its rule.
package controllers

import (
	"net/netip"
	"time"

	"github.com/kloop-dev/kloop/controllers/attachdetach"
	"github.com/kloop-dev/kloop/controllers/bootstrapsigner"
	"github.com/kloop-dev/kloop/controllers/clusterdns"
	"github.com/kloop-dev/kloop/controllers/clusterroleaggregation"
	"github.com/kloop-dev/kloop/controllers/cronjob"
	"github.com/kloop-dev/kloop/controllers/csrapproving"
	"github.com/kloop-dev/kloop/controllers/csrcleaner"
	"github.com/kloop-dev/kloop/controllers/csrserving"
	"github.com/kloop-dev/kloop/controllers/csrsigning"
	"github.com/kloop-dev/kloop/controllers/daemonset"
	"github.com/kloop-dev/kloop/controllers/deployment"
	"github.com/kloop-dev/kloop/controllers/devicetainteviction"
	"github.com/kloop-dev/kloop/controllers/disruption"
	"github.com/kloop-dev/kloop/controllers/endpoints"
	"github.com/kloop-dev/kloop/controllers/endpointslice"
	"github.com/kloop-dev/kloop/controllers/endpointslicemirroring"
	"github.com/kloop-dev/kloop/controllers/ephemeralvolume"
	"github.com/kloop-dev/kloop/controllers/garbage"
	"github.com/kloop-dev/kloop/controllers/horizontalpodautoscaler"
	"github.com/kloop-dev/kloop/controllers/job"
	"github.com/kloop-dev/kloop/controllers/legacytokencleaner"
	"github.com/kloop-dev/kloop/controllers/loadbalancer"
	"github.com/kloop-dev/kloop/controllers/localstorage"
	"github.com/kloop-dev/kloop/controllers/namespace"
	"github.com/kloop-dev/kloop/controllers/nodeipam"
	"github.com/kloop-dev/kloop/controllers/nodelifecycle"
	"github.com/kloop-dev/kloop/controllers/podcertificatecleaner"
	"github.com/kloop-dev/kloop/controllers/podgc"
	"github.com/kloop-dev/kloop/controllers/policystatus"
	"github.com/kloop-dev/kloop/controllers/pvcprotection"
	"github.com/kloop-dev/kloop/controllers/pvprotection"
	"github.com/kloop-dev/kloop/controllers/replicaset"
	"github.com/kloop-dev/kloop/controllers/replicationcontroller"
	"github.com/kloop-dev/kloop/controllers/resourceclaim"
	"github.com/kloop-dev/kloop/controllers/resourcequota"
	"github.com/kloop-dev/kloop/controllers/rootca"
	"github.com/kloop-dev/kloop/controllers/selinuxwarning"
	"github.com/kloop-dev/kloop/controllers/serviceaccount"
	"github.com/kloop-dev/kloop/controllers/serviceaccounttoken"
	"github.com/kloop-dev/kloop/controllers/servicecidr"
	"github.com/kloop-dev/kloop/controllers/statefulset"
	"github.com/kloop-dev/kloop/controllers/storagemigration"
	"github.com/kloop-dev/kloop/controllers/tainteviction"
	"github.com/kloop-dev/kloop/controllers/tokencleaner"
	"github.com/kloop-dev/kloop/controllers/ttl"
	"github.com/kloop-dev/kloop/controllers/ttlafterfinished"
	"github.com/kloop-dev/kloop/controllers/vacprotection"
	"github.com/kloop-dev/kloop/controllers/volumebinder"
	"github.com/kloop-dev/kloop/controllers/volumeexpander"
	"github.com/kloop-dev/kloop/kinds/localvolume"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// Config holds the facts about a cluster that its loops need.
type Config struct {
	Kinds            *resource.Set
	RootCA           []byte                         // certificate of the cluster's CA, in PEM
	NodeGrace        time.Duration                  // silence after which a node counts as lost; 0: 50 s
	Others           namespace.Others               // servers behind APIServices; nil: nobody empties them
	Metrics          horizontalpodautoscaler.Source // what autoscalers go by; nil: there are none
	AutoscalerPeriod time.Duration                  // how often autoscalers look; 0: 15 s
	DNS              []netip.Addr                   // cluster IPs of the cluster DNS; none: agents serve none
	LoadBalancer     loadbalancer.Mode              // where Services of type LoadBalancer get their addresses; "": from nodes
	LocalStorage     bool                           // volumes on nodes' disks, and a default class of them
	Snapshots        bool                           // the kinds of volume snapshots are defined, where they are missing
	Figures          *loop.Figures                  // what loops count; nil: nobody asks
	// ranges that nodes get their pod addresses from, one of each family; none: nodes have their own
	Pods []nodeipam.Pool
}

// An Entry is a loop with the names that upstream knows it by.
type Entry struct {
	loop.Loop
	Account   string // service account in kube-system that it acts as
	Component string // source of its events
}

// All returns the loops in the order in which they start. The order does not matter to them.
func All(c Config) []Entry {
	list := []Entry{
		{serviceaccount.Controller, "service-account-controller", "serviceaccount-controller"},
		{rootca.Controller(c.RootCA), "root-ca-cert-publisher", "root-ca-cert-publisher"},
		{namespace.Controller(c.Others), "namespace-controller", "namespace-controller"},
		{garbage.Controller(c.Kinds), "generic-garbage-collector", "garbage-collector"},
		{deployment.Controller, "deployment-controller", "deployment-controller"},
		{replicaset.Controller, "replicaset-controller", "replicaset-controller"},
		{daemonset.Controller, "daemon-set-controller", "daemonset-controller"},
		{statefulset.Controller(c.Kinds.Features()), "statefulset-controller", "statefulset-controller"},
		{job.Controller, "job-controller", "job-controller"},
		{cronjob.Controller, "cronjob-controller", "cronjob-controller"},
		{ttlafterfinished.Controller, "ttl-after-finished-controller", "ttl-after-finished-controller"},
		{replicationcontroller.Controller, "replication-controller", "replication-controller"},
		{endpointslice.Controller, "endpointslice-controller", "endpoint-slice-controller"},
		{endpoints.Controller, "endpoint-controller", "endpoint-controller"},
		{endpointslicemirroring.Controller, "endpointslicemirroring-controller", "endpoint-slice-mirroring-controller"},
		{horizontalpodautoscaler.Controller(c.Metrics, c.AutoscalerPeriod), "horizontal-pod-autoscaler", "horizontal-pod-autoscaler"},
		{nodelifecycle.Controller(c.NodeGrace), "node-controller", "node-controller"},
		{tainteviction.Controller(), "node-controller", "taint-eviction-controller"},
		{podgc.Controller(), "pod-garbage-collector", "pod-garbage-collector"},
		{disruption.Controller, "disruption-controller", "controllermanager"},
		{disruption.Stale, "disruption-controller", "controllermanager"},
		{clusterroleaggregation.Controller, "clusterrole-aggregation-controller", "clusterrole-aggregation-controller"},
		{volumebinder.Claims, "persistent-volume-binder", "persistentvolume-controller"},
		{volumebinder.Volumes, "persistent-volume-binder", "persistentvolume-controller"},
		{volumeexpander.Controller, "expand-controller", "volume_expand"},
		{localstorage.Controller(c.LocalStorage), "local-storage", localvolume.Provisioner},
		{localstorage.Classes(c.LocalStorage), "local-storage", localvolume.Provisioner},
		{localstorage.Snapshots(c.LocalStorage, c.Snapshots), "local-storage", localvolume.Provisioner},
		{pvcprotection.Controller(c.Kinds.Features()), "pvc-protection-controller", "pvc-protection-controller"},
		{pvprotection.Controller, "pv-protection-controller", "pv-protection-controller"},
		{ephemeralvolume.Controller, "ephemeral-volume-controller", "ephemeral_volume"},
		{resourcequota.Controller(c.Kinds), "resourcequota-controller", "resourcequota-controller"},
		{clusterdns.Controller(c.DNS), "cluster-dns", "cluster-dns"},
		{loadbalancer.Controller(c.LoadBalancer), "service-controller", "load-balancer"},
		{servicecidr.Controller, "service-cidrs-controller", "service-cidrs-controller"},
		{tokencleaner.Controller, "token-cleaner", "token-cleaner"},
		{bootstrapsigner.Controller, "bootstrap-signer", "bootstrap-signer"},
		{legacytokencleaner.Controller, "legacy-service-account-token-cleaner", "legacy-service-account-token-cleaner"},
		{csrapproving.Controller, "certificate-controller", "certificate-controller"},
		{csrserving.Controller, "kubelet-serving-approver", "certificate-controller"},
		{csrcleaner.Controller, "certificate-controller", "certificate-controller"},
		{podcertificatecleaner.Controller, "podcertificaterequestcleaner", "podcertificaterequestcleaner"},
		{vacprotection.Controller, "volumeattributesclass-protection-controller", "volumeattributesclass-protection-controller"},
		{attachdetach.Controller(attachdetach.TimesIn(c.Figures)), "attachdetach-controller", "attachdetach-controller"},
		{storagemigration.Controller(c.Kinds.Features()), "storage-version-migrator-controller", "storage-version-migrator-controller"},
		{ttl.Controller, "ttl-controller", "ttl-controller"},
		{resourceclaim.Pods, "resource-claim-controller", "resource_claim"},
		{resourceclaim.Claims, "resource-claim-controller", "resource_claim"},
		{devicetainteviction.Controller, "device-taint-eviction-controller", "device-taint-eviction"},
		{devicetainteviction.Rules, "device-taint-eviction-controller", "device-taint-eviction"},
		{policystatus.Controller(c.Kinds), "validatingadmissionpolicy-status-controller", "validatingadmissionpolicy-status"},
	}
	if len(c.Pods) > 0 {
		list = append(list, Entry{nodeipam.Controller(c.Pods), "node-controller", "cidrAllocator"})
	}
	return list
}

// Asked returns the loops that run only where somebody asks for them by name, as upstream has it.
func Asked() []Entry {
	return []Entry{{selinuxwarning.Controller(), "selinux-warning-controller", "selinux_warning"}}
}

// Signing returns the loop that signs certificate requests. It runs where the cluster's authority is.
func Signing(ca csrsigning.Signer) Entry {
	return Entry{csrsigning.Controller(ca), "certificate-controller", "certificate-controller"}
}

// Tokens returns the loop that fills Secrets with tokens of service accounts. It runs where the signing key is.
func Tokens(sign serviceaccounttoken.Signer, rootCA []byte) Entry {
	return Entry{serviceaccounttoken.Controller(sign, rootCA), "kube-controller-manager", "serviceaccount-token-controller"}
}

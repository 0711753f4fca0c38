package words

// ByGroup has what helps where only one project's objects say so: the group and the kind of the object stand before its words, all in lower
// case. In advice {} is the object as a command names it, {ns} its namespace as one.
var ByGroup = []Saying{
	{"velero.io/backup *failed", "", "velero knows which items failed, and why: velero backup logs {}"},
	{"velero.io/restore *failed", "", "velero knows which items failed, and why: velero restore logs {}"},
	{"velero.io/*has been in phase", "", "velero works on one after the other, and on none that it had begun when it was started " +
		"anew: see whether " +
		"it is at it still, and delete those that hang: kubectl get backups.velero.io,restores.velero.io {ns}"},
	{"longhorn.io/volume *faulted", "", "see which of its replicas failed, and where; bring a node back that has a good one, or restore a " +
		"backup: kubectl get replicas.longhorn.io {ns} -o wide"},
	{"velero.io/*invalid repository password", "", "the repository was made with another password than secret/velero-repo-credentials has: " +
		"bring that one back: kubectl get secret velero-repo-credentials {ns}"},
	{"keda.sh/*kafka", "", "compare the trigger's bootstrapServers, and the TLS and SASL of its TriggerAuthentication, with what " +
		"the brokers want"},
	{"keda.sh/*no such host", "", "correct the address in the trigger's metadata, as seen from KEDA's pod"},
	{"keda.sh/*connection refused", "", "see whether what the trigger asks runs: kubectl get services,endpointslices {ns}"},
	{"cluster.x-k8s.io/*waitingforcontrolplane", "", "the first machine of the control plane comes before it: " +
		"kubectl get kubeadmcontrolplanes,machines {ns}"},
	{"cluster.x-k8s.io/*waitingforbootstrapdata", "", "its bootstrap configuration comes before it: kubectl get " +
		"kubeadmconfigs,machines {ns}"},
	{"metal3.io/*inspection", "", bootsFromNet}, {"metal3.io/*introspection", "", bootsFromNet},
	{"metal3.io/*inspecting", "", bootsFromNet},
	{"metal3.io/*power", "", managed}, {"metal3.io/*registration", "", managed}, {"metal3.io/*timed out", "", managed},
	{"actions.github.com/ephemeralrunner ", "", runnerGone}, {"actions.github.com/*failedephemeralrunners", "",
		"runners that failed keep their places until they are deleted: kubectl get ephemeralrunners {ns}"},
	{"helm.toolkit.fluxcd.io/*additional propert", "", "correct spec.values: the chart's schema (values.schema.json) does not allow that"},
	{"helm.toolkit.fluxcd.io/*schema", "", "correct spec.values: the chart's schema (values.schema.json) does not allow that"},
	{"helm.toolkit.fluxcd.io/*retries", "", retryHelm}, {"helm.toolkit.fluxcd.io/*timed out waiting", "", retryHelm},
	{"helm.toolkit.fluxcd.io/*deadline exceeded", "", retryHelm},
	{"kustomize.toolkit.fluxcd.io/*health check failed", "", "see why what it applied is not well: kubectl get pods,events -A"},
	{"kustomize.toolkit.fluxcd.io/*path not found", "", "correct spec.path: its source has no such directory"},
	{"kustomize.toolkit.fluxcd.io/*build failed", "", "correct the kustomization.yaml that it names, in its source; " +
		"kustomize build there says the same"},
	{"kustomize.toolkit.fluxcd.io/*timeout waiting", "", "see why that is not ready; what never is may be left out, by spec.healthChecks " +
		"in place of spec.wait: kubectl get events -A"},
	{"k8s.elastic.co/*unavailable", "", unreached}, {"k8s.elastic.co/*reachable", "", unreached},
	{"k8s.elastic.co/*volume expansion", "", "ask in volumeClaimTemplates for what its claims have, or let their class grow " +
		"(allowVolumeExpansion): kubectl get pvc {ns}"},
	{"argoproj.io/workflow *exceeded quota", "", "raise the quota, or have fewer steps at once (spec.parallelism) and a retryStrategy: " +
		"kubectl describe resourcequota {ns}"},
	{"argoproj.io/application *not declared in schema", "", "take that field out of what git has, or bring the CRD or server up to it"},
	{"argoproj.io/application *progressing", "", "see what is not done: kubectl get applications.argoproj.io {} -o " +
		"jsonpath='{.status.resources}'"},
	{"kueue.x-k8s.io/workload *untolerated taint", "", "give its pods a toleration of that taint, or have the flavor add one " +
		"(spec.tolerations): kubectl get resourceflavors.kueue.x-k8s.io -o yaml"},
	{"kueue.x-k8s.io/workload *maximum capacity", "", "ask for less, or raise nominalQuota of its cluster queue, which is below what is " +
		"asked for at once: kubectl get clusterqueues.kueue.x-k8s.io -o yaml"},
	{"kueue.x-k8s.io/workload *insufficient", "", "wait for what runs there, or raise nominalQuota of its cluster queue, or let it borrow: " +
		"kubectl get clusterqueues.kueue.x-k8s.io -o yaml"},
	{"kueue.x-k8s.io/workload *doesn't match node affinity", "", "correct the node selector of its pods by the flavors that its cluster " +
		"queue has: kubectl get resourceflavors.kueue.x-k8s.io -o yaml"},
	{"kubevirt.io/*/dev/kvm", "", emulated},
	{"snapshot.storage.k8s.io/*not yet bound", "", "see whether the claim is bound by now; if the snapshot still does not go on, " +
		"delete it and make " +
		"it anew: kubectl get pvc {ns}"},
	{"snapshot.storage.k8s.io/*not ready to use", "", "see whether the driver's controller has a container csi-snapshotter, and " +
		"read its log: " +
		"kubectl get pods -A -o wide"},
	{"sparkoperator.k8s.io/*run spark-submit", "", "what spark-submit said is in the operator's log alone: look there"},
	{"crossplane.io/*no resources matched selector", "", noneMatched}, {"upbound.io/*no resources matched selector", "", noneMatched},
	{"acme.cert-manager.io/*no zones", "", zone}, {"acme.cert-manager.io/*zone*not found", "", zone},
	{"acme.cert-manager.io/*start of authority", "", "see whether the name servers that cert-manager asks know that zone (dig SOA), or give " +
		"it others: --dns01-recursive-nameservers"},
	{"acme.cert-manager.io/*no configured challenge solvers", "", "have a solver of its issuer select those names, by selector.dnsZones or " +
		"dnsNames, or select none: kubectl get clusterissuers,issuers -A -o yaml"},
	{"cluster.x-k8s.io/machine *matching providerid", "", "see whether its node has joined that cluster with a spec.providerID: the cloud's " +
		"controller manager gives it there, if kubelets have --cloud-provider=external"},
	{"cert-manager.io/*rate", "", limited},
	{"resources.azure.com/*authorization", "", "give the identity that the operator works with a role at that scope, such as Contributor"},
	{"fleet.cattle.io/*incompatible with kubernetes", "", newerChart},
	{"postgresql.cnpg.io/*has no backup section", "", "say in it, or in its scheduledbackup, that a plugin makes it, if one does: " +
		"spec.method: plugin with pluginConfiguration.name; else give the cluster spec.backup"},
	{"postgresql.cnpg.io/*plugin is not available", "", "have that plugin in the namespace of the operator, which looks for it there alone: " +
		"kubectl get services,deployments -A -l cnpg.io/pluginName"},
	{"postgresql.cnpg.io/cluster *failed", "", "to have an instance copied anew, delete its pod and claim, if it is not the primary: " +
		"kubectl get pods,pvc {ns}"},
	{"kafka.strimzi.io/*exceeded timeout", "", "see what it waited for: kubectl get pods,services,pvc {ns}"},
	{"ray.io/*deploying app", "", "what the application lacks belongs in the image, or in runtime_env of serveConfigV2"},
	{"external-secrets.io/*secret does not exist", "", "correct the name in remoteRef, or make it at the provider"},
	{"external-secrets.io/*could not create or update externalsecret", "", "see whether there is an externalsecret of that name already, " +
		"which it does not take over: kubectl get externalsecrets.external-secrets.io -A"},
	{"external-secrets.io/*namespaces must be explicitly set", "", "give each reference in spec.provider the namespace of what it names: " +
		"a store of the whole cluster has none of its own"},
	{"external-secrets.io/*iam role", "", "give the service account its role: annotation eks.amazonaws.com/role-arn"},
	{"karpenter.sh/*karpenter.sh/unregistered taint", "", "have its nodes join with that taint, in the user data of the node class: " +
		"kubelet --register-with-taints=karpenter.sh/unregistered:NoExecute"},
	{"operators.coreos.com/subscription *no operators found in package", "", "correct spec.name, source and sourceNamespace by what " +
		"catalogs have: kubectl get packagemanifests -A"},
	{"operators.coreos.com/subscription *exists and is not referenced", "", "an earlier installation was left behind: delete that " +
		"clusterserviceversion, so that the subscription makes its own: kubectl get clusterserviceversions.operators.coreos.com {ns}"},
	{"operators.coreos.com/subscription *which does not exist", "", "delete the subscription and its clusterserviceversion, and make the " +
		"subscription anew: kubectl get subscriptions.operators.coreos.com,clusterserviceversions.operators.coreos.com {ns}"},
	{"operators.coreos.com/installplan *is invalid", "", "the package is at fault: take another version or channel of it " +
		"in its subscription: kubectl get subscriptions.operators.coreos.com {ns}"},
	{"acme.cert-manager.io/*invalid response from", "", "look whether that name leads here from outside, to an ingress that serves the " +
		"solver: kubectl get ingress,services -A"},
	{"operators.coreos.com/installplan *requiresapproval", "", "if it is to be installed, approve it: kubectl patch " +
		"installplans.operators.coreos.com {} --type merge -p '{\"spec\":{\"approved\":true}}'"},
	{"operators.coreos.com/*installmodetype not supported", "", "let the namespace's operator group select what the operator can watch " +
		"(spec.targetNamespaces): kubectl get operatorgroups.operators.coreos.com {ns} -o yaml"},
	{"kubevirt.io/*insufficient devices.kubevirt.io/kvm", "", emulated}, {"kubevirt.io/*syncvmi failed", "",
		"read what its launcher says: kubectl logs {ns} -c compute -l kubevirt.io=virt-launcher --tail=50"},
	{"gateway.networking.k8s.io/*is not implemented", "", "another controller than that of its class writes its status too: see " +
		"which, and have it keep to its own classes: kubectl get gateways.gateway.networking.k8s.io {} -o yaml --show-managed-fields"},
	{"knative.dev/*401", "", "give the revision's service account the registry's pull secret, then make a new revision, for this one " +
		"is not tried again: kubectl patch serviceaccount default {ns} -p '{\"imagePullSecrets\":[{\"name\":\"NAME\"}]}'"},
}

const (
	emulated = "put it on nodes that can virtualize, or let it be emulated, which is slow: in the kubevirt object, " +
		"spec.configuration.developerConfiguration.useEmulation: true"
	unreached    = "see whether network policies let the operator reach its service: kubectl get networkpolicies -A"
	bootsFromNet = "look at the host's console: it has to boot from the network there (DHCP and PXE of the provisioning network)"
	managed      = "see whether the address in spec.bmc answers from the cluster, and its credentials fit; then the pod of ironic " +
		"may be restarted"
	runnerGone = "when that is mended, delete it, since it is not tried again: kubectl delete ephemeralrunners.actions.github.com {}"
	retryHelm  = "see what of the release is not ready and mend that, then have it tried again (flux reconcile helmrelease --reset): " +
		"kubectl get pods,events {ns}"
	noneMatched = "make what the selector looks for, or correct its labels; it has to be of the same composite where " +
		"matchControllerRef is set"
	zone = "let the account that it works with read and write that zone; where a CNAME delegates the record, have the solver follow " +
		"it: cnameStrategy: Follow in its dns01"
	newerChart = "take a version of the chart that is for this version of Kubernetes: kubectl version"
)

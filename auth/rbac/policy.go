package rbac

// A spec describes a role of the default policy and, when it has subjects, the binding of the same name.
//
// A rule is written as one line: verbs, resources, then optionally "in" groups and "named" names; or verbs,
// "url" and paths. Lists are joined by commas; the core group is written "core" and is the default. "read" is
// get, list, watch; "write" is create, delete, deletecollection, patch, update; "all" is both. A rule that is there
// only while a feature gate is on begins with the gate and a colon; one of newer versions with since37 and a colon.
type spec struct {
	name     string
	gate     string   // the role is there only while this feature gate is on; "": always
	labels   string   // aggregation labels that the role carries: admin, edit, view
	gathers  string   // the role is the union of the roles that carry this label
	rules    []string // as above
	subjects string   // user:x, group:x or sa:x (in kube-system), separated by blanks; "-": a binding of nobody
}

// since37 begins rules that versions before 1.37 do not have.
const since37 = "since37"

const events = "create,patch,update events in core,events.k8s.io"

// clusterPolicy is upstream's default policy but for the controllers.
var clusterPolicy = []spec{
	{name: "cluster-admin", rules: []string{"* * in *", "* url *"}, subjects: "group:system:masters"},
	{name: "system:discovery", subjects: "group:system:authenticated",
		rules: []string{"get url /api,/api/*,/apis,/apis/*,/healthz,/livez,/openapi,/openapi/*,/readyz,/version,/version/"}},
	{name: "system:monitoring", subjects: "group:system:monitoring", rules: []string{
		"get url /flagz,/healthz,/healthz/*,/livez,/livez/*,/metrics,/metrics/slis,/readyz,/readyz/*,/statusz",
		"get nodes/metrics"}},
	{name: "system:basic-user", subjects: "group:system:authenticated", rules: []string{
		"create selfsubjectaccessreviews,selfsubjectrulesreviews in authorization.k8s.io",
		"create selfsubjectreviews in authentication.k8s.io"}},
	{name: "system:public-info-viewer", subjects: "group:system:authenticated group:system:unauthenticated",
		rules: []string{"get url /healthz,/livez,/readyz,/version,/version/"}},
	{name: "admin", gathers: "admin"},
	{name: "edit", gathers: "edit", labels: "admin"},
	{name: "view", gathers: "view", labels: "edit"},
	{name: "system:aggregate-to-admin", labels: "admin", rules: []string{
		"create localsubjectaccessreviews in authorization.k8s.io",
		"all rolebindings,roles in rbac.authorization.k8s.io"}},
	{name: "system:aggregate-to-edit", labels: "edit", rules: editRules},
	{name: "system:aggregate-to-view", labels: "view", rules: viewRules},
	{name: "system:heapster", rules: []string{"read events,namespaces,nodes,pods", "read deployments in extensions"}},
	{name: "system:node", rules: nodeRules, subjects: "-"},
	{name: "system:node-problem-detector", rules: []string{"get nodes", "patch nodes/status", events}},
	{name: "system:kubelet-api-admin", rules: []string{"read nodes", "proxy nodes",
		"* nodes/log,nodes/metrics,nodes/proxy,nodes/stats", "* nodes/configz,nodes/healthz,nodes/pods"}},
	{name: "system:node-bootstrapper", rules: []string{"create,get,list,watch certificatesigningrequests in certificates.k8s.io"}},
	{name: "system:auth-delegator", rules: []string{
		"create tokenreviews in authentication.k8s.io", "create subjectaccessreviews in authorization.k8s.io"}},
	{name: "system:kube-aggregator", rules: []string{"read endpoints,services"}},
	{name: "system:kube-controller-manager", subjects: "user:system:kube-controller-manager", rules: []string{
		events, "create leases in coordination.k8s.io",
		"get,update leases in coordination.k8s.io named kube-controller-manager",
		"create secrets,serviceaccounts", "delete secrets", "get configmaps,namespaces,secrets,serviceaccounts",
		"update secrets,serviceaccounts", "create tokenreviews in authentication.k8s.io",
		"create subjectaccessreviews in authorization.k8s.io", "list,watch * in *", "create serviceaccounts/token"}},
	{name: "system:kube-dns", subjects: "sa:kube-dns", rules: []string{"list,watch endpoints,services"}},
	{name: "system:persistent-volume-provisioner", rules: []string{
		"create,delete,get,list,watch persistentvolumes", "get,list,update,watch persistentvolumeclaims",
		"read storageclasses in storage.k8s.io", "watch events", events}},
	{name: "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
		rules: []string{"create certificatesigningrequests/nodeclient in certificates.k8s.io"}},
	{name: "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
		rules: []string{"create certificatesigningrequests/selfnodeclient in certificates.k8s.io"}},
	{name: "system:certificates.k8s.io:legacy-unknown-approver",
		rules: []string{"approve signers in certificates.k8s.io named kubernetes.io/legacy-unknown"}},
	{name: "system:certificates.k8s.io:kubelet-serving-approver",
		rules: []string{"approve signers in certificates.k8s.io named kubernetes.io/kubelet-serving"}},
	{name: "system:certificates.k8s.io:kube-apiserver-client-approver",
		rules: []string{"approve signers in certificates.k8s.io named kubernetes.io/kube-apiserver-client"}},
	{name: "system:certificates.k8s.io:kube-apiserver-client-kubelet-approver",
		rules: []string{"approve signers in certificates.k8s.io named kubernetes.io/kube-apiserver-client-kubelet"}},
	{name: "system:service-account-issuer-discovery", subjects: "group:system:serviceaccounts", rules: []string{
		"get url /.well-known/openid-configuration,/.well-known/openid-configuration/,/openid/v1/jwks,/openid/v1/jwks/"}},
	{name: "system:cluster-trust-bundle-discovery", gate: "ClusterTrustBundle", subjects: "group:system:serviceaccounts",
		rules: []string{"read clustertrustbundles in certificates.k8s.io"}},
	{name: "system:node-proxier", subjects: "user:system:kube-proxy", rules: []string{
		"list,watch endpoints,services", "read nodes", events, "list,watch servicecidrs in networking.k8s.io",
		"list,watch endpointslices in discovery.k8s.io"}},
	{name: "system:kube-scheduler", subjects: "user:system:kube-scheduler", rules: schedulerRules},
	{name: "system:volume-scheduler", subjects: "user:system:kube-scheduler", rules: []string{
		"get,list,patch,update,watch persistentvolumes", "read storageclasses in storage.k8s.io",
		"get,list,patch,update,watch persistentvolumeclaims"}},
}

var editRules = []string{
	"read pods/attach,pods/exec,pods/portforward,pods/proxy,secrets,services/proxy",
	"impersonate serviceaccounts",
	"write pods,pods/attach,pods/exec,pods/portforward,pods/proxy",
	"create pods/eviction",
	"write configmaps,persistentvolumeclaims,replicationcontrollers,replicationcontrollers/scale,secrets,serviceaccounts,services," +
		"services/proxy",
	"create serviceaccounts/token",
	"write events in core,events.k8s.io",
	"write daemonsets,deployments,deployments/rollback,deployments/scale,replicasets,replicasets/scale,statefulsets,statefulsets/scale " +
		"in apps",
	"write horizontalpodautoscalers in autoscaling",
	"write cronjobs,jobs in batch",
	"write daemonsets,deployments,deployments/rollback,deployments/scale,ingresses,networkpolicies,replicasets,replicasets/scale," +
		"replicationcontrollers/scale in extensions",
	"write poddisruptionbudgets in policy",
	"write ingresses,networkpolicies in networking.k8s.io",
	"all leases in coordination.k8s.io",
	"write resourceclaims,resourceclaimtemplates in resource.k8s.io",
}

var viewRules = []string{
	"read configmaps,endpoints,persistentvolumeclaims,persistentvolumeclaims/status,pods,replicationcontrollers," +
		"replicationcontrollers/scale,serviceaccounts,services,services/status",
	"read bindings,limitranges,namespaces/status,pods/log,pods/status,replicationcontrollers/status,resourcequotas,resourcequotas/status",
	"read namespaces",
	"read events in core,events.k8s.io",
	"read endpointslices in discovery.k8s.io",
	"read controllerrevisions,daemonsets,daemonsets/status,deployments,deployments/scale,deployments/status,replicasets," +
		"replicasets/scale,replicasets/status,statefulsets,statefulsets/scale,statefulsets/status in apps",
	"read horizontalpodautoscalers,horizontalpodautoscalers/status in autoscaling",
	"read cronjobs,cronjobs/status,jobs,jobs/status in batch",
	"read daemonsets,daemonsets/status,deployments,deployments/scale,deployments/status,ingresses,ingresses/status,networkpolicies," +
		"replicasets,replicasets/scale,replicasets/status,replicationcontrollers/scale in extensions",
	"read poddisruptionbudgets,poddisruptionbudgets/status in policy",
	"read ingresses,ingresses/status,networkpolicies in networking.k8s.io",
	"read resourceclaims,resourceclaims/status,resourceclaimtemplates in resource.k8s.io",
}

// nodeRules allow what every node agent may do; package node narrows some of them to what is on the node.
var nodeRules = []string{
	"create tokenreviews in authentication.k8s.io",
	"create localsubjectaccessreviews,subjectaccessreviews in authorization.k8s.io",
	"read services",
	"create,get,list,watch nodes",
	"patch,update nodes/status",
	"patch,update nodes",
	events,
	"read pods",
	"create,delete pods",
	"patch,update pods/status",
	"create pods/eviction",
	"read configmaps,secrets",
	"get persistentvolumeclaims,persistentvolumes",
	"get endpoints",
	"create,get,list,watch certificatesigningrequests in certificates.k8s.io",
	"create,delete,get,patch,update leases in coordination.k8s.io",
	"get volumeattachments in storage.k8s.io",
	"create serviceaccounts/token",
	"get,patch,update persistentvolumeclaims/status",
	"read csidrivers in storage.k8s.io",
	"create,delete,get,patch,update csinodes in storage.k8s.io",
	"read runtimeclasses in node.k8s.io",
	"get resourceclaims in resource.k8s.io",
	"deletecollection resourceslices in resource.k8s.io",
	"ClusterTrustBundleProjection: read clustertrustbundles in certificates.k8s.io",
	"get serviceaccounts",
	"PodCertificateRequest: create,get,list,watch podcertificaterequests in certificates.k8s.io",
}

var schedulerRules = []string{
	events,
	"create leases in coordination.k8s.io",
	"get,list,update,watch leases in coordination.k8s.io named kube-scheduler",
	"all leasecandidates in coordination.k8s.io",
	"read nodes",
	"delete,get,list,watch pods",
	"create bindings,pods/binding",
	"patch,update pods/status",
	"read replicationcontrollers,services",
	"read replicasets in apps,extensions",
	"read statefulsets in apps",
	"read poddisruptionbudgets in policy",
	"read persistentvolumeclaims,persistentvolumes",
	"create tokenreviews in authentication.k8s.io",
	"create subjectaccessreviews in authorization.k8s.io",
	"read csinodes in storage.k8s.io",
	"read volumeattachments in storage.k8s.io",
	"read namespaces",
	"read csidrivers in storage.k8s.io",
	"read csistoragecapacities in storage.k8s.io",
	"read deviceclasses in resource.k8s.io",
	"get,list,patch,update,watch resourceclaims in resource.k8s.io",
	"get,list,patch,update,watch resourceclaims/status in resource.k8s.io",
	"update pods/finalizers",
	"read resourceslices in resource.k8s.io",
	"create,delete resourceclaims in resource.k8s.io",
	"DRADeviceTaintRules: read devicetaintrules in resource.k8s.io",
	"DRAResourceClaimGranularStatusAuthorization: patch,update resourceclaims/binding in resource.k8s.io",
}

// A localSpec is a role in a namespace, with the binding of the same name unless another is given.
type localSpec struct {
	namespace string
	binding   string
	spec
}

var localPolicy = []localSpec{
	{namespace: "kube-public", spec: spec{name: "system:controller:bootstrap-signer", subjects: "sa:bootstrap-signer",
		rules: []string{"read configmaps", "update configmaps named cluster-info", events}}},
	{namespace: "kube-system", binding: "system::extension-apiserver-authentication-reader",
		spec: spec{name: "extension-apiserver-authentication-reader",
			rules:    []string{"read configmaps named extension-apiserver-authentication"},
			subjects: "user:system:kube-controller-manager user:system:kube-scheduler"}},
	{namespace: "kube-system", spec: spec{name: "system::leader-locking-kube-controller-manager", rules: lockRules,
		subjects: "user:system:kube-controller-manager sa:kube-controller-manager sa:leader-election-controller"}},
	{namespace: "kube-system", spec: spec{name: "system::leader-locking-kube-scheduler", rules: lockRules,
		subjects: "user:system:kube-scheduler sa:kube-scheduler"}},
	{namespace: "kube-system", spec: spec{name: "system:controller:bootstrap-signer", subjects: "sa:bootstrap-signer",
		rules: []string{"read secrets"}}},
	{namespace: "kube-system", spec: spec{name: "system:controller:cloud-provider", subjects: "sa:cloud-provider",
		rules: []string{"create,get,list,watch configmaps"}}},
	{namespace: "kube-system", spec: spec{name: "system:controller:token-cleaner", subjects: "sa:token-cleaner",
		rules: []string{"delete,get,list,watch secrets", events}}},
}

var lockRules = []string{
	"create,get,list,update,watch leases in coordination.k8s.io",
	"create,get,list,update,watch leasecandidates in coordination.k8s.io",
}

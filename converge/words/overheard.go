package words

import (
	"github.com/kloop-dev/kloop/internal/pattern"
)

// Overheard are words of drivers, clouds, operators and the programs they run, in lower case, and what helps.
var Overheard = []Saying{
	{"could not correct them", "",
		"what is on the volume is damaged: scale its workload down, attach it by hand and run fsck, or bring back a snapshot"},
	{"volume*limitexceeded", "", fullNode}, {"volume*maximum number of", "", fullNode}, {"attach*limit*exceeded", "", fullNode},
	{"modification rate", "", "wait as long as it says: it tries again by itself"},
	{"operation with the given volume", "", "an earlier try hangs in the driver: look whether the storage behind it answers, " +
		"then start the driver's pod on the node anew"},
	{"knownhosts", "", hostKey}, {"host key", "", hostKey},
	{"is sealed", "", "unseal it: vault operator unseal"},
	{"http-01", "", "look whether that name leads here from outside, to an ingress that serves the solver: kubectl get " +
		"ingress,services -A"},
	{"dns-01", "", "look whether the record is at the name servers of the zone (dig TXT), and the solver's account may write there"},
	{"\"policy/v1beta1\"", "", oldAPI}, {"\"extensions/v1beta1\"", "", oldAPI}, {"\"apps/v1beta", "", oldAPI},
	{"\"batch/v1beta1\"", "", oldAPI}, {"\"networking.k8s.io/v1beta1\"", "", oldAPI}, {"\"autoscaling/v2beta", "", oldAPI},
	{"no pool exists", "", "make a pool that has that address, or ask for one that a pool has: kubectl get ciliumloadbalancerippools"},
	{"no available backends", "", "compare the parameters of the class with the backends that its driver has, and their state: " +
		"kubectl get storageclass -o yaml"},
	{"no matches for kind", "", "install what brings that kind, its CRD or the operator; those that are there: kubectl api-resources"},
	{"crd is not present", "", "install that CRD, or the operator that brings it: kubectl get crds"},
	{"no hostnames match", "", "correct the hostnames here, or the hostname of the parent's listener"},
	{"nomatchinglistenerhostname", "", "correct the hostnames here, or the hostname of the parent's listener"},
	{"default snapshot class", "", "name one in volumeSnapshotClassName, or let one be the default by the annotation " +
		"snapshot.storage.kubernetes.io/is-default-class=true"},
	{"not pointing at", "", pointThere}, {"not pointing to", "", pointThere}, {"does not resolve to", "", pointThere},
	{"at least one subnet", "", "tag the subnets kubernetes.io/role/elb=1 (inside: internal-elb), or name them in the annotation"},
	{"no available ips", "", "free an address, or give the pool more"},
	{"expected \"nodeport\"", "", "make the service of type NodePort, or have its pods addressed: annotation cloud.google.com/neg"},
	{"\" not registered", "", "its node agent has lost sight of that object, as happens while a pod goes: if it stays so, " +
		"delete the pod, so that it is made anew: kubectl delete pod {}"},
	{"ensure load balancer*deadline exceeded", "", cloudSilent}, {"ensure load balancer*timeout", "", cloudSilent},
	{"security context constraint", "", "let the pod's user and rights be those of its namespace, or give its service account another " +
		"SecurityContextConstraints"},
	{"not registered with", "", "look at the machine's own log, whether it reaches the API server and may join: kubectl get csr"},
	{"taint*still exists", "", "the program that is to take that taint away has not: look at its pod on that node"},
	{"minavailable", "", "make room for all of them at once, or lower how many must start together: a gang starts as a whole"},
	{"autoscaler*max node group size", "", "let the group of nodes grow larger"},
	{"autoscaler*does not have known values", "", "have a pool of nodes give that label, or leave it out of what the pod asks of nodes"},
	{"another operation (install", "", "an operation was broken off: helm history {} shows which, helm rollback {} takes it back"},
	{"in the kafka cluster configuration", "", "let that Kafka have it: spec.kafka.authorization, or the listener's authentication"},
	{"tags not fulfilled", "", "give nodes or disks those tags, or have the volume ask for others (nodeSelector, diskSelector)"},
	{"not scheduled, code", "", "its copies fit on no disks: make room there, add nodes, or have fewer copies"},
	{"not allowed in config", "", "ask for an address that a pool has, or let a pool have that one"},
	{"manifest unknown", "", noTag}, {"manifest_unknown", "", noTag}, {"unknown tag", "", noTag},
	{"failed to resolve image", "", "it is a controller that looks the tag up: name the image by its digest, let the controller reach " +
		"and trust that registry, or have it leave it alone (registries-skipping-tag-resolving in Knative's config-deployment)"},
	{"no available host", "", "register a host that is free, or let one go"},
	{"repository not initialized", "", "what was in the bucket is gone: delete its backuprepository, so that it is made anew"},
	{"enough space left", "", fullStore},
	{"not enough disk space", "", "enlarge its storage in the spec, if its class lets volumes grow; else make room on it"},
	{"no repository definition", "", "let Argo CD know that repository: argocd repo add URL --type helm --name NAME"},
	{"insecure global_id", "", "when all clients are new enough, in the toolbox: " +
		"ceph config set mon auth_allow_insecure_global_id_reclaim false"},
	{"status.ceph.health", "", "ask in the toolbox what it is and what helps: ceph health detail"},
	{"no compatible composition", "", "make a composition for that kind, or give one the labels that compositionSelector asks for"},
	{"scratch space required", "", "let the importer have a class that makes volumes: spec.config.scratchSpaceStorageClass of the CDI"},
	{"notallowedbylisteners", "", "have a listener of the parent allow it: allowedRoutes (kinds, namespaces)"},
	{"nomatchingparent", "", "name a listener that the parent has (sectionName, port)"},
	{"autoscaler*no instance type", "", "let a pool of nodes have types of machines that have all that, or ask for less"},
	{"bundle unpacking failed", "", "delete the job that failed in the catalog's namespace, then the install plan and the " +
		"subscription, and make that anew"},
	{"mon quorum", "", "see whether the monitors reach each other, and remove what an older cluster left in dataDirHostPath on the nodes"},
	{"selector did not match any", "", "give what it is to find the tags of its selector, or correct the selector"},
	{"no key could decrypt", "", "seal it anew for this cluster, by the name and in the namespace that it has here: kubeseal"},
	{"denied the request", "", "change what is applied so that it fits, where it comes from; who judges it: kubectl get " +
		"validatingwebhookconfigurations,mutatingwebhookconfigurations"},
	{"longer than the specified deadline", "", "raise that deadline (activeDeadlineSeconds), or see why it takes so long"},
	{"(sqlstate", "", "mend that in the database itself, or correct the spec by what it has"},
	{"exists but is not managed", "", "delete what is there, or let it be taken over, in the way that its controller has for that"},
	{"exists and is not managed", "", "delete what is there, or let it be taken over by the annotation that its controller has for that"},
	{"assessed failed", "", "look at the analysis run and what it measured, and let the rollout be tried again when that is well"},
	{"package dependencies", "", "install the packages that it names, in versions that fit"},
	{"lookup *i/o timeout", "", unnamed}, {"lookup *server misbehaving", "", unnamed},
	{"dial tcp*i/o timeout", "", "look whether its controller's pod reaches that address: routes, firewalls, network policies"},
	{"backofflimitexceeded", "", "see which job that is, and read the logs of its pods: kubectl get jobs,pods -A"},
	{"incompatible with kubernetes", "", newerChart}, {"certificate signed by unknown authority", "", "let its controller trust " +
		"that authority, by " +
		"the field or Secret that it has for it (caBundle, ca.crt), or give the server another certificate"},
	{"version matching*found", "", noVersion}, {"no matching version", "", noVersion}, {"no version*satisf", "", noVersion},
	{"no match*semver", "", noVersion},
	{"no operators found in channel", "", "name a channel that the package has in spec.channel: kubectl get packagemanifests -A -o wide"},
	{"exceeds limits for nodepool", "", noMoreNodes}, {"exceed limits for", "", noMoreNodes}, {"would exceed limit", "", noMoreNodes},
	{"already exists", "", taken}, {"alreadyexists", "", taken}, {"alreadyowned", "", taken}, {"already in use", "", taken},
	{"already taken", "", taken},
	{"exceeded quota", "", "raise the quota, or ask for less: kubectl describe resourcequota {ns}"},
	{"ratelimit", "", limited}, {"rate limit exceeded", "", limited}, {"too many requests", "", limited}, {"limitexceeded", "", limited},
	{"limit exceeded", "", limited}, {"insufficient*quota", "", limited}, {"exceed*quota", "", limited},
	{"quota*exceed", "", limited}, {"throttl", "", limited}, {"rate exceeded", "", limited},
	{"expiredtoken", "", renew}, {"token*expired", "", renew}, {"credential*expired", "", renew}, {"expired*credential", "", renew},
	{"quota exceeded", "", limited},
	{"maximum number of", "", limited},
	{"etcd*nospace", "", "its database is full: in the etcd member, defragment it (etcdctl defrag), then etcdctl alarm disarm; a larger " +
		"quota is --quota-backend-bytes"},
	{"access denied by server", "", "let the file server export that path to the nodes' addresses (on it: exportfs -v)"},
	{"listen*permission denied", "", LowPort}, {"bind*permission denied", "", LowPort},
	{"permanentredirect", "", otherRegion}, {"authorizationheadermalformed*region", "", otherRegion},
	{"accessdenied", "", noRight}, {"access denied", "", noRight}, {"not authorized", "", noRight}, {"permissiondenied", "", noRight},
	{"permission denied", "", noRight}, {"unauthorized", "", noRight}, {"authentication required", "", noRight},
	{"authentication fail", "", noRight}, {"credentials", "", noRight},
	{"unexpected eof", "", "the other side broke off: look whether what it reads from answers whole, with no limit or proxy between"},
	{"403 forbidden", "", noRight}, {"error 403", "", noRight}, {"code: 403", "", noRight}, {"status code 403", "", noRight},
	{"pools that match", "", "make such a pool, or give the service the labels that a pool selects"},
	{"too long: must have at most 262144", "", "have it applied by the server (--server-side), which keeps no copy in an annotation; " +
		"in Argo CD by the sync option ServerSideApply=true"},
	{"got 404", "", nothingThere}, {"https://*404 not found", "", nothingThere}, {"nosuchbucket", "", "correct the bucket's name, or make it"},
	{"minimum free", "", fullStore}, {"storagefull", "", fullStore}, {"nospc", "", fullStore},
	{"requires the following permissions", "", "give the service account that the spec names those rights, by a role and its binding; " +
		"what those are that there are: kubectl get clusterrolebindings -o wide"},
	{"insufficient storage", "", "make room in the storage behind it, or add disks to it"}, {"available, but requires", "",
		"make room on that disk, or add one"},
	{"resourceexhausted", "", "make room in the storage behind the driver"},
	{"less than the size", "", "ask for at least as much as the source has"},
	{"no available topology", "", "see whether the driver's pods run on the nodes: kubectl get csinodes -o yaml"},
	{"no topology key found", "", "see whether the driver's pod there runs: kubectl get csinodes"},
	{"still being used", "", "see who has it still: kubectl get volumeattachments"},
}

const (
	fullNode    = "raise that limit, or have fewer such volumes there: kubectl get volumeattachments"
	cloudSilent = "the cloud does not answer: see its state, and the log of the cloud's controller manager: kubectl get pods -n kube-system"
	noRight     = "give the account that it works with that right at the other side, or correct its credentials"
	otherRegion = "correct the region, or the endpoint, that its spec has for the bucket: the bucket lies in another one"
	noTag       = "correct the image's tag: its repository has none of that name"
	noVersion   = "ask for a version that is there, or have that one published"
	noMoreNodes = "raise the limits of that pool of nodes, or let pods go: kubectl get nodepools.karpenter.sh -o yaml"
	taken       = "there is one of that name: choose another name, delete that one, or have it taken over"
	renew       = "renew the credentials that it works with: they have expired"
	oldAPI      = "this Kubernetes has that version of the API no more: apply a newer one, as by a newer chart, or by" +
		" Helm's plugin mapkubeapis"
	hostKey      = "put the server's key (ssh-keyscan HOST) into known_hosts of the Secret that it names"
	nothingThere = "correct that address: nothing is there"
	fullStore    = "make room in the storage that it writes to, or give it more"
	unnamed      = "see whether the cluster's DNS runs and answers for names outside, and its controller's pod reaches it: " +
		"kubectl get pods,services -n kube-system -l k8s-app=kube-dns"
	pointThere = "have that name lead there by its record, at the name servers of the domain; what they say now: dig NAME"
	limited    = "wait, or have that limit raised"
)

// LookAt begins advice to look at what a controller speaks of, which stands in where nothing better is known.
const LookAt = "look at what it speaks of"

// Vague begins advice that holds for anything that fails.
var Vague = []string{LookAt, "read ", "look at the node agent", "look at the volume's path", "look at the container", "see all that",
	"give the storage behind", "check the command", "see to what it says"}

// Unfit finds words by which a controller says that it can't do what a spec asks for, as it stands there.
var Unfit = pattern.New(`(?i)(not |un)supported|\bis invalid|invalid (value|spec|rego|module|syntax|format|expression)|` +
	`syntax error|should be|must (be|have|not)\b|unknown field|cannot include|required value|(error|unable|failed to) pars|` +
	`correct \w+ specification|\[User error\]|missing (?:values|parameters)|is required\b|invalid \w+ spec`)

// LowPort is the advice for a port that only root may listen at.
const LowPort = "let it listen at a port of 1024 or more: below, only root may, or who has the capability NET_BIND_SERVICE"

package settings

import (
	"slices"

	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/features"
)

// table binds every setting to its field.
func table(o *Options) []Setting {
	return slices.Concat(serving(o), keeping(&o.Config), networking(&o.Config), authnSettings(&o.Config),
		admitting(&o.Config), loopSettings(o),
		tuning(&o.Config),
		fetching(&o.Config), placing(&o.Config),
		adding(&o.Config))
}

// serving lists the settings of the process, the API and the store behind it.
func serving(o *Options) []Setting {
	const all = Up | Server | Controllers | Node
	c := &o.Config
	return []Setting{
		{Key: "dataDir", Flag: "data-dir", For: Up | Server, Doc: "directory of keys, certificates and the store", value: text{&c.DataDir}},
		{Key: "store", Flag: "store", For: Up | Server, Doc: "`etcd`, or `memory`, which is gone when kloop ends", value: text{&c.Store}},
		{Key: "kubeconfig", Flag: "kubeconfig", For: Up | Server,
			Doc: "where to write the administrator's kubeconfig, beside DATA-DIR/admin.kubeconfig", value: text{&c.Kubeconfig}},
		{Key: "log", Flag: "log", For: all,
			Doc: "`debug`, `info`, `warn` or `error`; SIGHUP has a process read this again", value: choice{&o.LogLevel, "debug info warn error"}},
		{Key: "logFormat", Flag: "logging-format", For: all, Doc: "`text` or `json`, an object a line", value: choice{&o.LogFormat, "text json"}},
		{Key: "pprof", Flag: "pprof", For: Up | Server, Doc: "serve profiles of kloop itself at this address, host:port",
			value: endpoint{&o.Pprof}},

		{Key: "api.listen", Flag: "listen", For: Up | Server, Doc: "address of the API, host:port; pods can't reach it on the loopback",
			value: endpoint{&c.Listen}},
		{Key: "api.hosts", Flag: "hosts", For: Up | Server, Doc: "further names and addresses that the serving certificate is good for",
			value: stringList{&c.Hosts}},
		{Key: "api.advertise", Flag: "advertise-address", For: Up | Server,
			Doc: "address at which pods reach the API; default: where it listens, or the machine's", value: address{&c.Advertise}},
		{Key: "api.maxReads", Flag: "max-requests-inflight", For: Up | Server,
			Doc: "seats for requests that read; all priority levels share these and the next", value: number{&c.MaxReads}},
		{Key: "api.maxWrites", Flag: "max-mutating-requests-inflight", For: Up | Server, Doc: "seats for requests that write",
			value: number{&c.MaxWrites}},
		{Key: "api.shutdownDelay", Flag: "shutdown-delay-duration", For: Up | Server,
			Doc:   "how long a server that is told to end serves on, and says so at /readyz, for load balancers to notice; 15s at most",
			value: period{&c.ShutdownDelay}},
		{Key: "api.certFile", Flag: "tls-cert-file", For: Up | Server,
			Doc: "serving certificate of your own; without one the cluster's authority issues it", value: file{&c.ServingCert}},
		{Key: "api.keyFile", Flag: "tls-private-key-file", For: Up | Server, Doc: "its key", value: file{&c.ServingKey}},
		{Key: "api.clientCAFile", Flag: "client-ca-file", For: Up | Server,
			Doc: "a further authority whose client certificates are believed", value: file{&c.ClientCA}},
		{Key: "api.anonymous", Flag: "anonymous-auth", For: Up | Server,
			Doc: "whether requests without credentials are heard, as `system:anonymous`", value: negated{&c.NoAnonymous}},
	}
}

// keeping lists the settings of the store, of what is written of requests, and of tokens.
func keeping(c *cluster.Config) []Setting {
	return []Setting{
		{Key: "etcd.servers", Flag: "etcd-servers", For: Up | Server, Doc: "use these etcd servers instead of the embedded one",
			value: stringList{&c.EtcdServers}},
		{Key: "etcd.caFile", Flag: "etcd-cafile", For: Up | Server, Doc: "authority of the etcd servers", value: file{&c.EtcdTLS.CA}},
		{Key: "etcd.certFile", Flag: "etcd-certfile", For: Up | Server, Doc: "client certificate for the etcd servers",
			value: file{&c.EtcdTLS.Cert}},
		{Key: "etcd.keyFile", Flag: "etcd-keyfile", For: Up | Server, Doc: "its key", value: file{&c.EtcdTLS.Key}},
		{Key: "peers.listen", Flag: "peer-listen", For: Up | Server,
			Doc:   "where the embedded etcd answers those of other servers, host:port; without it no server can join",
			value: endpoint{&c.Together.PeerListen}},
		{Key: "peers.url", Flag: "peer-url", For: Up | Server,
			Doc: "how they reach it, https://host:port; default: the machine's address", value: text{&c.Together.PeerURL}},
		{Key: "peers.name", Flag: "member-name", For: Up | Server, Doc: "name of this server among them; default: the host name",
			value: text{&c.Together.Name}},
		{Key: "peers.join", Flag: "join", For: Up | Server,
			Doc: "a running server to join, https://host:port, as long as the data directory holds no data", value: text{&c.Together.Join}},
		{Key: "peers.token", Flag: "token", For: Up | Server, Doc: "what it lets one join with; `kloop token` on its machine prints it",
			value: text{&c.Together.Token}},

		{Key: "snapshots.every", Flag: "snapshot-every", For: Up | Server,
			Doc: "how often the embedded etcd is saved, if something changed; negative: never", value: period{&c.Snapshots.Every}},
		{Key: "snapshots.keep", Flag: "snapshot-keep", For: Up | Server, Doc: "how many are kept", value: number{&c.Snapshots.Keep}},
		{Key: "snapshots.dir", Flag: "snapshot-dir", For: Up | Server, Doc: "where; default: DATA-DIR/snapshots", value: text{&c.Snapshots.Dir}},

		{Key: "encryption.configFile", Flag: "encryption-provider-config", For: Up | Server,
			Doc: "EncryptionConfiguration: what is encrypted at rest, and by which keys", value: file{&c.EncryptionConfig}},

		{Key: "audit.policyFile", Flag: "audit-policy-file", For: Up | Server,
			Doc: "Policy (audit.k8s.io/v1): what is recorded of which requests; nothing without one", value: file{&c.Audit.PolicyFile}},
		{Key: "audit.logPath", Flag: "audit-log-path", For: Up | Server,
			Doc: "file of the records, one JSON event a line; `-` is the standard output", value: text{&c.Audit.LogPath}},
		{Key: "audit.logMaxAge", Flag: "audit-log-maxage", For: Up | Server, Doc: "days that old log files are kept; 0: for ever",
			value: number{&c.Audit.LogMaxAge}},
		{Key: "audit.logMaxBackups", Flag: "audit-log-maxbackup", For: Up | Server, Doc: "how many old log files are kept; 0: all",
			value: number{&c.Audit.LogMaxBackups}},
		{Key: "audit.logMaxSize", Flag: "audit-log-maxsize", For: Up | Server,
			Doc: "MiB from which a new log file is begun; default: 100", value: number{&c.Audit.LogMaxSize}},
		{Key: "audit.logCompress", Flag: "audit-log-compress", For: Up | Server, Doc: "compress old log files (gzip)",
			value: boolean{&c.Audit.LogCompress}},
		{Key: "audit.webhookConfigFile", Flag: "audit-webhook-config-file", For: Up | Server,
			Doc: "kubeconfig of a server that gets batches of records", value: file{&c.Audit.WebhookKubeconfig}},
		{Key: "audit.webhookBackoff", Flag: "audit-webhook-initial-backoff", For: Up | Server,
			Doc: "pause before a batch is sent again; default: 10s", value: period{&c.Audit.WebhookBackoff}},

		{Key: "tokens.issuer", Flag: "service-account-issuer", For: Up | Server, Doc: "issuer of service account tokens", value: text{&c.Issuer}},
		{Key: "tokens.audiences", Flag: "api-audiences", For: Up | Server,
			Doc: "audiences that the API takes tokens for; default: the issuer", value: stringList{&c.Audiences}},
		{Key: "tokens.signingKeyFile", Flag: "service-account-signing-key-file", For: Up | Server,
			Doc: "key that signs them, ECDSA P-256 or RSA; default: DATA-DIR/pki/sa.key, made when missing", value: file{&c.TokenKey}},
		{Key: "tokens.keyFiles", Flag: "service-account-key-file", For: Up | Server,
			Doc: "further keys (or certificates) whose tokens are believed", value: files{&c.TokenKeys}},
	}
}

// networking concerns addresses and names.
func networking(c *cluster.Config) []Setting {
	return []Setting{
		{Key: "network.serviceCIDRs", Flag: "service-cluster-ip-range", For: Up | Server | Controllers | Node,
			Doc: "ranges of cluster IPs, the default family first, one of each at most", value: prefixes{&c.ServiceCIDRs}},
		{Key: "network.podCIDR", Flag: "cluster-cidr", For: Up | Controllers,
			Doc: "addresses of pods, one range of each family at most, cut into parts for nodes; " +
				"default 10.88.0.0/16, of pods on simulated nodes 10.128.0.0/9",
			value: prefixes{&c.PodCIDRs}},
		{Key: "network.nodePorts", Flag: "service-node-port-range", For: Up | Server, Doc: "ports of services of type NodePort",
			value: ports{&c.NodePortLow, &c.NodePortHigh}},
		{Key: "network.mode", Flag: "network", For: Up | Node,
			Doc: "how pods reach other machines: `auto`, plain routes on one link and VXLAN elsewhere; `vxlan`; `routes`; `wireguard`, encrypted; " +
				"or `none`, where Flannel, Calico or Cilium does it",
			value: text{&c.Network}},

		{Key: "network.policies", Flag: "network-policies", For: Up | Node,
			Doc: "nodes enforce NetworkPolicies; without it bring somebody who does, as Calico", value: negated{&c.NoPolicies}},

		{Key: "storage.local", Flag: "local-storage", For: Up | Controllers | Node,
			Doc:   "volumes on nodes' disks, below DATA-DIR/storage, and a default StorageClass of them, `local-path`; without it bring another",
			value: negated{&c.NoLocalStorage}},
		{Key: "storage.snapshots", Flag: "volume-snapshots", For: Up | Controllers,
			Doc:   "define VolumeSnapshot, its class and content, where they are missing; volumes of the class `local-image` can be copied",
			value: boolean{&c.VolumeSnapshots}},

		{Key: "dns.enabled", Flag: "dns", For: Up | Controllers | Node,
			Doc: "nodes' agents serve the cluster DNS; without it bring another, as CoreDNS", value: negated{&c.DNS.Off}},
		{Key: "dns.addresses", Flag: "cluster-dns", For: Up | Controllers | Node,
			Doc:   "cluster IPs of the Service kube-system/kube-dns; default: the tenth of each range of cluster IPs",
			value: addresses{&c.DNS.Addresses}},
		{Key: "dns.domain", Flag: "cluster-domain", For: Up | Node,
			Doc: "domain of the cluster's names; default: cluster.local", value: text{&c.DNS.Domain}},
		{Key: "dns.upstreams", Flag: "dns-upstream", For: Up | Node,
			Doc:   "name servers for all other names, ADDRESS or ADDRESS:PORT; default: those of /etc/resolv.conf",
			value: stringList{&c.DNS.Upstreams}},
		{Key: "dns.stubDomains", Flag: "dns-stub-domain", For: Up | Node,
			Doc: "name servers for the names below a domain, DOMAIN=ADDRESS", value: stringList{&c.DNS.Stubs}},
	}
}

// authnSettings lists the settings of authentication.
func authnSettings(c *cluster.Config) []Setting {
	return []Setting{
		{Key: "authentication.configFile", Flag: "authentication-config", For: Up | Server,
			Doc: "AuthenticationConfiguration: issuers of tokens, and who may be anonymous", value: file{&c.Authn.ConfigFile}},
		{Key: "authentication.tokenFile", Flag: "token-auth-file", For: Up | Server,
			Doc: "fixed tokens: lines of token,user,uid,\"group,group\"", value: file{&c.Authn.TokenFile}},
		{Key: "authentication.webhookConfigFile", Flag: "authentication-token-webhook-config-file", For: Up | Server,
			Doc: "kubeconfig of a server that is asked about tokens", value: file{&c.Authn.WebhookKubeconfig}},
		{Key: "authentication.webhookVersion", Flag: "authentication-token-webhook-version", For: Up | Server,
			Doc: "version of the TokenReview that it is sent: `v1`, or `v1beta1`, the default", value: choice{&c.Authn.WebhookVersion,
				"v1 v1beta1"}},
		{Key: "authentication.webhookTTL", Flag: "authentication-token-webhook-cache-ttl", For: Up | Server,
			Doc: "how long its good tokens are remembered; default: 2m", value: period{&c.Authn.WebhookTTL}},
		{Key: "oidc.issuerURL", Flag: "oidc-issuer-url", For: Up | Server,
			Doc: "OpenID Connect provider whose tokens are believed, https://", value: text{&c.Authn.OIDC.IssuerURL}},
		{Key: "oidc.clientID", Flag: "oidc-client-id", For: Up | Server, Doc: "audience that its tokens must be for",
			value: text{&c.Authn.OIDC.ClientID}},
		{Key: "oidc.usernameClaim", Flag: "oidc-username-claim", For: Up | Server, Doc: "claim that names the user; default: sub",
			value: text{&c.Authn.OIDC.UsernameClaim}},
		{Key: "oidc.usernamePrefix", Flag: "oidc-username-prefix", For: Up | Server,
			Doc:   "what stands before the name; default: the issuer and #, unless the claim is email; `-` is nothing",
			value: text{&c.Authn.OIDC.UsernamePrefix}},
		{Key: "oidc.groupsClaim", Flag: "oidc-groups-claim", For: Up | Server, Doc: "claim that names the groups",
			value: text{&c.Authn.OIDC.GroupsClaim}},
		{Key: "oidc.groupsPrefix", Flag: "oidc-groups-prefix", For: Up | Server, Doc: "what stands before their names",
			value: text{&c.Authn.OIDC.GroupsPrefix}},
		{Key: "oidc.requiredClaims", Flag: "oidc-required-claim", For: Up | Server, Doc: "claims that its tokens must have, CLAIM=VALUE",
			value: pairs{&c.Authn.OIDC.RequiredClaims}},
		{Key: "oidc.caFile", Flag: "oidc-ca-file", For: Up | Server, Doc: "authorities of its certificate; default: the machine's",
			value: file{&c.Authn.OIDC.CAFile}},
		{Key: "oidc.signingAlgs", Flag: "oidc-signing-algs", For: Up | Server,
			Doc: "algorithms that its tokens may be signed with; default: RS256", value: stringList{&c.Authn.OIDC.SigningAlgs}},
	}
}

// admitting lists the settings of admission, authorization and of what is served.
func admitting(c *cluster.Config) []Setting {
	return []Setting{
		{Key: "admission.enable", Flag: "enable-admission-plugins", For: Up | Server, Doc: "plugins beside the default ones",
			value: stringList{&c.AdmissionOn}},
		{Key: "admission.disable", Flag: "disable-admission-plugins", For: Up | Server, Doc: "plugins to leave out",
			value: stringList{&c.AdmissionOff}},
		{Key: "admission.configFile", Flag: "admission-control-config-file", For: Up | Server,
			Doc: "AdmissionConfiguration: what plugins are told", value: file{&c.AdmissionConfig}},
		{Key: "authorization.modes", Flag: "authorization-mode", For: Up | Server,
			Doc:   "who is asked, in order: `Node`, `RBAC`, `Webhook`, `AlwaysAllow`, `AlwaysDeny`; `system:masters` may do everything",
			value: stringList{&c.Authorization}},
		{Key: "authorization.configFile", Flag: "authorization-config", For: Up | Server,
			Doc: "AuthorizationConfiguration: who is asked, in order, in place of the modes", value: file{&c.Authz.ConfigFile}},
		{Key: "authorization.webhookConfigFile", Flag: "authorization-webhook-config-file", For: Up | Server,
			Doc: "kubeconfig of the server that the mode `Webhook` asks", value: file{&c.Authz.WebhookKubeconfig}},
		{Key: "authorization.webhookVersion", Flag: "authorization-webhook-version", For: Up | Server,
			Doc:   "version of the SubjectAccessReview that it is sent: `v1`, or `v1beta1`, the default",
			value: choice{&c.Authz.WebhookVersion, "v1 v1beta1"}},
		{Key: "authorization.webhookAllowedTTL", Flag: "authorization-webhook-cache-authorized-ttl", For: Up | Server,
			Doc: "how long it is remembered that it allowed; default: 5m", value: period{&c.Authz.WebhookAllowedTTL}},
		{Key: "authorization.webhookRefusedTTL", Flag: "authorization-webhook-cache-unauthorized-ttl", For: Up | Server,
			Doc: "how long it is remembered that it did not; default: 30s", value: period{&c.Authz.WebhookRefusedTTL}},
		{Key: "emulatedVersion", Flag: "emulated-version", For: Up | Server, Doc: "the Kubernetes whose API this is: `1.36` or `1.37`",
			value: text{&c.EmulatedVersion}},
		{Key: "runtimeConfig", Flag: "runtime-config", For: Up | Server,
			Doc:   "what of the API is served, GROUP/VERSION=false, GROUP/VERSION/RESOURCE=true, api/beta=false",
			value: switches{(*map[string]bool)(&c.RuntimeConfig)}},
		{Key: "featureGates", Flag: "feature-gates", For: Up | Server,
			Doc: "feature gates that differ from upstream's defaults, NAME=true or NAME=false", value: gates{&c.Features}},
	}
}

// loopSettings lists the settings of loops and nodes.
func loopSettings(o *Options) []Setting {
	c := &o.Config
	return []Setting{
		{Key: "controllers.run", Flag: "controllers", For: Up | Controllers,
			Doc:   "`*` is all but those that have to be named, `name` one more, `-name` one less; upstream's names and kloop's own",
			value: stringList{&c.Controllers}},
		{Key: "controllers.signingCertFile", Flag: "cluster-signing-cert-file", For: Controllers,
			Doc: "authority of the cluster, which signs certificate requests; without it somebody else does", value: file{&c.SigningCert}},
		{Key: "controllers.signingKeyFile", Flag: "cluster-signing-key-file", For: Controllers, Doc: "its key", value: file{&c.SigningKey}},
		{Key: "controllers.nodeMonitorGrace", Flag: "node-monitor-grace", For: Up | Controllers,
			Doc: "silence after which a node is not ready", value: period{&c.NodeMonitorGrace}},
		{Key: "controllers.nodeMonitorPeriod", Flag: "node-monitor-period", For: Up | Controllers,
			Doc: "look at all nodes this often too; by default whenever something changes or a grace runs out", value: period{&c.NodeMonitorPeriod}},
		{Key: "controllers.autoscalerPeriod", Flag: "horizontal-pod-autoscaler-sync-period", For: Up | Controllers,
			Doc: "look at all autoscalers this often too", value: period{&c.AutoscalerPeriod}},
		{Key: "controllers.volumeBinderPeriod", Flag: "pvclaimbinder-sync-period", For: Up | Controllers,
			Doc: "look at all volumes and claims this often too; by default whenever something changes", value: period{&c.BinderPeriod}},

		{Key: "controllers.allocateNodeCIDRs", Flag: "allocate-node-cidrs", For: Up | Controllers,
			Doc: "give every node a part of the pod range, in spec.podCIDR", value: boolean{&c.NodeCIDRs}},
		{Key: "controllers.nodeCIDRMaskSize", Flag: "node-cidr-mask-size", For: Up | Controllers,
			Doc: "prefix length of such a part where pods have one family", value: number{&c.NodeCIDRBits}},
		{Key: "controllers.nodeCIDRMaskSizeIPv4", Flag: "node-cidr-mask-size-ipv4", For: Up | Controllers,
			Doc: "and of IPv4 where they have both; default 24", value: number{&c.NodeCIDRBits4}},
		{Key: "controllers.nodeCIDRMaskSizeIPv6", Flag: "node-cidr-mask-size-ipv6", For: Up | Controllers, Doc: "and of IPv6; default 64",
			value: number{&c.NodeCIDRBits6}},
		{Key: "scheduler.configFile", Flag: "scheduler-config", For: Up | Controllers,
			Doc: "KubeSchedulerConfiguration: profiles, each with its plugins and weights", value: file{&c.SchedulerConfig}},

		{Key: "node.kind", Flag: "node", For: Up, Doc: "`real`: this machine is a node; `auto`: if it has a container runtime; `none`",
			value: text{&c.Node}},
		{Key: "node.name", Flag: "node-name", For: Up, Doc: "name of this machine's node; default: the host name", value: text{&c.NodeName}},
		{Key: "node.manifests", Flag: "manifests", For: Up, Doc: "directory of static pods of this machine's node", value: text{&c.StaticDir}},
		{Key: "node.containerRuntimeEndpoint", Flag: "container-runtime-endpoint", For: Up | Node,
			Doc:   "CRI runtime that runs already, as unix:///run/containerd/containerd.sock; default: a containerd of its own",
			value: socket{&o.RuntimeSocket}},
		{Key: "node.installRuntime", Flag: "install-runtime", For: Up | Node,
			Doc:   "install containerd, runc and the CNI plugins by the machine's package manager, where they are missing",
			value: boolean{&o.InstallRuntime}},
		{Key: "node.rootDir", Flag: "root-dir", For: Up | Node,
			Doc:   "the agent's root directory: CSI drivers and device plugins know no other than this; each node of a machine needs its own",
			value: text{&c.RootDir}},
		{Key: "node.evictionHard", Flag: "eviction-hard", For: Up | Node,
			Doc: "when pods are evicted: SIGNAL<QUANTITY or SIGNAL<PERCENT%, with commas; `none`: never", value: text{&c.Pressure.Eviction}},
		{Key: "node.evictionSoft", Flag: "eviction-soft", For: Up | Node,
			Doc: "when pods are evicted if it lasts, as evictionHard", value: text{&c.Pressure.EvictionSoft}},
		{Key: "node.evictionSoftGracePeriod", Flag: "eviction-soft-grace-period", For: Up | Node,
			Doc: "how long it lasts then: SIGNAL=DURATION, for each", value: pairs{&c.Pressure.EvictionSoftGracePeriod}},
		{Key: "node.evictionMaxPodGracePeriod", Flag: "eviction-max-pod-grace-period", For: Up | Node,
			Doc: "seconds that such a pod has to end, at most", value: number{&c.Pressure.EvictionMaxPodGracePeriod}},
		{Key: "node.evictionMinimumReclaim", Flag: "eviction-minimum-reclaim", For: Up | Node,
			Doc:   "how much more must be left before a threshold is passed: SIGNAL=QUANTITY or PERCENT%",
			value: pairs{&c.Pressure.EvictionMinimumReclaim}},
		{Key: "node.evictionPressureTransitionPeriod", Flag: "eviction-pressure-transition-period", For: Up | Node,
			Doc: "for how long pressure is told after the last crossing; default: 5m", value: period{&c.Pressure.EvictionTransition}},
		{Key: "node.imageGCHigh", Flag: "image-gc-high-threshold", For: Up | Node,
			Doc: "percent of the disk in use from which images that nobody uses are removed; 100: never", value: number{&c.Pressure.ImageGCHigh}},
		{Key: "node.imageGCLow", Flag: "image-gc-low-threshold", For: Up | Node,
			Doc: "percent of the disk in use until which they are", value: number{&c.Pressure.ImageGCLow}},
	}
}

// adding holds the settings of what a cluster does beside its objects: explaining, applying manifests, carrying its Services.
func adding(c *cluster.Config) []Setting {
	return []Setting{
		{Key: "convergence.enabled", Flag: "convergence", For: Up | Server,
			Doc:   "keep what explains why something has not converged: the API convergence.kloop.dev (`kloop why`, `gaps`, `loops`), and the trail",
			value: negated{&c.NoConvergence}},
		{Key: "ui.enabled", Flag: "ui", For: Up | Server,
			Doc: "serve the live page at /ui: static files, which have no rights of their own", value: negated{&c.NoPage}},
		{Key: "trail.off", Flag: "no-trail", For: Up | Server,
			Doc:   "do not remember who changed what and because of what, and what it was before (`kloop trace`, `diff`, `undo`)",
			value: boolean{&c.NoTrail}},
		{Key: "trail.export", Flag: "trace-export", For: Up | Server,
			Doc: "where cascades go as OpenTelemetry spans: OTLP over HTTP, as http://collector:4318/v1/traces", value: text{&c.TraceExport}},
		{Key: "manifests.dir", Flag: "manifests-dir", For: Up,
			Doc:   "directory whose manifests the cluster applies, and prunes what they lose; default: DATA-DIR/manifests",
			value: text{&c.ManifestsDir}},
		{Key: "git.sources", Flag: "git-sources", For: Up,
			Doc: "serve GitSources: repositories whose manifests the cluster applies; who may make one may do all", value: boolean{&c.GitSources}},
		{Key: "git.dir", Flag: "git-dir", For: Up, Doc: "where copies of repositories lie; default: DATA-DIR/git", value: text{&c.GitDir}},
		{Key: "simulation.nodes", Flag: "sim-nodes", For: Up, Doc: "how many simulated nodes to make", value: number{&c.SimNodes}},

		{Key: "proxy.mode", Flag: "proxy-mode", For: Up | Node,
			Doc: "how services become rules of the kernel: `nftables`; `ipvs`, virtual servers of the kernel; or `none`, " +
				"where another program serves them", value: text{&c.ProxyMode}},
		{Key: "proxy.scheduler", Flag: "ipvs-scheduler", For: Up | Node,
			Doc: "how ipvs chooses among endpoints: rr, lc, sh, mh…; default: rr", value: text{&c.ProxyScheduler}},
		{Key: "proxy.strictARP", Flag: "ipvs-strict-arp", For: Up | Node,
			Doc: "with ipvs: the kernel answers ARP only for addresses of the interface that is asked, " +
				"so that only who announces a load balancer's address answers for it", value: negated{&c.IPVS.LooseARP}},
		{Key: "proxy.excludeCIDRs", Flag: "ipvs-exclude-cidrs", For: Up | Node,
			Doc: "with ipvs: addresses whose virtual servers are somebody else's; all others are kloop's", value: prefixes{&c.IPVS.Exclude}},
		{Key: "proxy.tcpTimeout", Flag: "ipvs-tcp-timeout", For: Up | Node,
			Doc: "with ipvs: how long a silent connection is remembered; default: the kernel's", value: period{&c.IPVS.TCPTimeout}},
		{Key: "proxy.tcpFinTimeout", Flag: "ipvs-tcpfin-timeout", For: Up | Node,
			Doc: "the same, once one side has ended it", value: period{&c.IPVS.TCPFinTimeout}},
		{Key: "proxy.udpTimeout", Flag: "ipvs-udp-timeout", For: Up | Node, Doc: "the same, of UDP", value: period{&c.IPVS.UDPTimeout}},
		{Key: "proxy.nodePortAddresses", Flag: "nodeport-addresses", For: Up | Node,
			Doc:   "at which of the machine's addresses node ports are served: ranges, or `primary`, the default, the addresses of its Node",
			value: stringList{&c.NodePortAddresses}},
		{Key: "loadBalancer.mode", Flag: "load-balancer", For: Up | Controllers,
			Doc: "where Services of type LoadBalancer get their addresses: `nodes`, those of nodes; `pools`, MetalLB's IPAddressPools; " +
				"or `none`, where another program gives them",
			value: text{(*string)(&c.LoadBalancer)}},
	}
}

// tuning holds the settings of a node that shares its machine. The keys are those of the kubelet's configuration.
func tuning(c *cluster.Config) []Setting {
	r, s := &c.NodeResources, &c.NodeShutdown
	return []Setting{
		{Key: "node.systemReserved", Flag: "system-reserved", For: Up | Node,
			Doc: "what pods do not get: cpu=QUANTITY, memory, ephemeral-storage, pid", value: pairs{&r.SystemReserved}},
		{Key: "node.kubeReserved", Flag: "kube-reserved", For: Up | Node,
			Doc: "what they do not get either, for kloop and the container runtime", value: pairs{&r.KubeReserved}},
		{Key: "node.reservedSystemCPUs", Flag: "reserved-cpus", For: Up | Node,
			Doc: "CPUs that pods do not get, as 0-1,4; in place of reserved cpu", value: text{&r.ReservedSystemCPUs}},
		{Key: "node.cgroupRoot", Flag: "cgroup-root", For: Up | Node,
			Doc: "cgroup in which that of all pods is, as `/kloop`; agents that share a machine have one each", value: text{&r.CgroupRoot}},
		{Key: "node.cgroupDriver", Flag: "cgroup-driver", For: Up | Node,
			Doc:   "who makes cgroups: `cgroupfs` or `systemd`; default: as the runtime says, and `cgroupfs` for kloop's own",
			value: text{&r.CgroupDriver}},
		{Key: "node.maxPods", Flag: "max-pods", For: Up | Node, Doc: "how many pods the node takes; 0: 110", value: number{&r.MaxPods}},
		{Key: "node.allowedUnsafeSysctls", Flag: "allowed-unsafe-sysctls", For: Up | Node,
			Doc:   "kernel parameters that pods may set beside the safe ones, as net.core.somaxconn or net.ipv4.*",
			value: stringList{&r.AllowedUnsafeSysctls}},
		{Key: "node.containerLogMaxSize", Flag: "container-log-max-size", For: Up | Node,
			Doc: "how large a container's log gets until a new file is begun; default: 10Mi", value: text{&r.ContainerLogMaxSize}},
		{Key: "node.containerLogMaxFiles", Flag: "container-log-max-files", For: Up | Node,
			Doc: "how many files are kept of it; 0: 5", value: number{&r.ContainerLogMaxFiles}},
		{Key: "node.podPidsLimit", Flag: "pod-max-pids", For: Up | Node,
			Doc: "how many processes one pod may have; 0 or -1: any number", value: limit{number{&r.PodPidsLimit}}},
		{Key: "node.maxContainerRestartPeriod", Flag: "max-container-restart-period", For: Up | Node,
			Doc:   "the longest pause of a crash loop, from 1s to 5m, as crashLoopBackOff.maxContainerRestartPeriod; default: 5m",
			value: period{&r.MaxContainerRestartPeriod}},
		{Key: "node.swapBehavior", Flag: "swap-behavior", For: Up | Node,
			Doc:   "`NoSwap`, the default, or `LimitedSwap`: Burstable pods use swap by what they request of memory (cgroup v2)",
			value: text{&r.SwapBehavior}},
		{Key: "node.memoryReservationPolicy", Flag: "memory-reservation-policy", For: Up | Node,
			Doc:   "`None`, the default, or `TieredReservation`: the kernel keeps the memory that pods request (cgroup v2)",
			value: text{&r.MemoryReservationPolicy}},
		{Key: "node.memoryThrottlingFactor", Flag: "memory-throttling-factor", For: Up | Node,
			Doc:   "share between request and limit from which on memory is slowed down, as 0.9 (cgroup v2)",
			value: text{&r.MemoryThrottlingFactor}},
		{Key: "node.enableSystemLogQuery", Flag: "enable-system-log-query", For: Up | Node,
			Doc: "whether the agent answers questions for the logs of the machine's services", value: boolean{&c.NodeLogQuery}},
		{Key: "node.shutdownGracePeriod", Flag: "shutdown-grace-period", For: Up | Node,
			Doc: "for how long the machine's shutdown waits for pods to end; default: not at all", value: period{&s.GracePeriod}},
		{Key: "node.shutdownGracePeriodCriticalPods", Flag: "shutdown-grace-period-critical-pods", For: Up | Node,
			Doc: "how much of that critical pods have, after the others", value: period{&s.GracePeriodCriticalPods}},
		{Key: "node.shutdownGracePeriodByPodPriority", Flag: "shutdown-grace-period-by-pod-priority", For: Up | Node,
			Doc: "in place of both: how long pods of a priority and above have, PRIORITY=DURATION", value: pairs{&s.ByPodPriority}},
	}
}

// fetching holds the settings of images on a node. The keys are those of the kubelet's configuration.
func fetching(c *cluster.Config) []Setting {
	i := &c.NodeImages
	return []Setting{
		{Key: "node.imageMinimumGCAge", Flag: "minimum-image-ttl-duration", For: Up | Node,
			Doc: "how long an image is safe after it came; default: 2m", value: period{&i.MinimumGCAge}},
		{Key: "node.imageMaximumGCAge", Flag: "maximum-image-ttl-duration", For: Up | Node,
			Doc: "for how long nobody has used an image that goes whatever room there is; default: it does not", value: period{&i.MaximumGCAge}},
		{Key: "node.maxParallelImagePulls", Flag: "max-parallel-image-pulls", For: Up | Node, Doc: "0: 4", value: number{&i.MaxParallelPulls}},
		{Key: "node.registries", Flag: "registries", For: Up | Node,
			Doc:   "file with mirrors, certificates and credentials of registries, as k3s' registries.yaml; default: /etc/containerd/certs.d",
			value: file{&i.Registries}},
		{Key: "node.imageCredentialProviderConfig", Flag: "image-credential-provider-config", For: Up | Node,
			Doc:   "file or directory that names plugins which know credentials of registries: a CredentialProviderConfig",
			value: text{&i.CredentialProviderConfig}},
		{Key: "node.imageCredentialProviderBinDir", Flag: "image-credential-provider-bin-dir", For: Up | Node,
			Doc: "directory of their programs", value: text{&i.CredentialProviderBinDir}},
		{Key: "node.imagePullCredentialsVerificationPolicy", Flag: "image-pull-credentials-verification-policy", For: Up | Node,
			Doc: "which images on disk a pod needs credentials for: `NeverVerifyPreloadedImages`, the default, those that were pulled; " +
				"`NeverVerifyAllowlistedImages`, `AlwaysVerify`, `NeverVerify`", value: text{&i.VerificationPolicy}},
		{Key: "node.preloadedImagesVerificationAllowlist", Flag: "preloaded-images-verification-allowlist", For: Up | Node,
			Doc:   "names of images that need none with NeverVerifyAllowlistedImages, unless pulled; all below one with /* at the end",
			value: stringList{&i.PreloadedAllowlist}},
	}
}

// placing holds the settings of what containers get for themselves. The keys are those of the kubelet's configuration.
func placing(c *cluster.Config) []Setting {
	t := &c.NodeTopology
	return []Setting{
		{Key: "node.cpuManagerPolicy", Flag: "cpu-manager-policy", For: Up | Node,
			Doc:   "`none`, the default, or `static`: Guaranteed containers that request whole CPUs have them for themselves",
			value: text{&t.CPUManagerPolicy}},
		{Key: "node.cpuManagerPolicyOptions", Flag: "cpu-manager-policy-options", For: Up | Node,
			Doc:   "full-pcpus-only=true, distribute-cpus-across-numa, align-by-socket, strict-cpu-reservation",
			value: pairs{&t.CPUManagerPolicyOptions}},
		{Key: "node.memoryManagerPolicy", Flag: "memory-manager-policy", For: Up | Node,
			Doc: "`None`, the default, or `Static`: Guaranteed containers have memory of few NUMA nodes", value: text{&t.MemoryManagerPolicy}},
		{Key: "node.reservedMemory", Flag: "reserved-memory", For: Up | Node,
			Doc: "memory that pods do not get, by NUMA node, as 0:memory=1Gi;1:memory=1Gi", value: text{&t.ReservedMemory}},
		{Key: "node.topologyManagerPolicy", Flag: "topology-manager-policy", For: Up | Node,
			Doc:   "how near to each other CPUs, memory and devices lie: `none`, `best-effort`, `restricted`, `single-numa-node`",
			value: text{&t.TopologyManagerPolicy}},
		{Key: "node.topologyManagerPolicyOptions", Flag: "topology-manager-policy-options", For: Up | Node,
			Doc: "prefer-closest-numa-nodes=true, max-allowable-numa-nodes=16", value: pairs{&t.TopologyManagerPolicyOptions}},
		{Key: "node.topologyManagerScope", Flag: "topology-manager-scope", For: Up | Node,
			Doc: "those of a `container`, the default, or of a `pod` together", value: text{&t.TopologyManagerScope}},
	}
}

// Defaults are the options of a command before anything is set.
func Defaults() Options {
	return Options{LogLevel: "info", LogFormat: "text", Config: cluster.Config{
		MaxReads: 400, MaxWrites: 200, EmulatedVersion: (*features.Set)(nil).String(),
		DataDir: "/var/lib/kloop", Listen: ":6443", Store: cluster.StoreEtcd, Node: cluster.NodeAuto, RootDir: cluster.KubeletDir,
		ServiceCIDRs: cluster.DefaultServiceCIDRs(), NodePortLow: 30000, NodePortHigh: 32767,
		Snapshots: cluster.Snapshots{Every: cluster.DefaultSnapshotEvery, Keep: cluster.DefaultSnapshotKeep},
		Issuer:    cluster.DefaultIssuer, Authorization: []string{cluster.ModeNode, cluster.ModeRBAC},
		Controllers: []string{"*"}, NodeMonitorGrace: cluster.DefaultNodeGrace, ProxyMode: cluster.ProxyNftables, LoadBalancer: "nodes",
		Pressure: cluster.DefaultPressure(), NodeCIDRs: true, Network: cluster.NetworkAuto}}
}

package kinds

// The words that a cluster's configuration and its nodes' machines share: the configuration is read where no node can run, too.
const (
	NetworkAuto   = "auto"   // plain routes between machines on one link, VXLAN elsewhere
	NetworkVXLAN  = "vxlan"  // VXLAN only: for networks that drop packets with addresses of pods, as many clouds' do
	NetworkRoutes = "routes" // plain routes only, and none to machines behind a router

	PodBridge = "cni0"     // the link of a machine that its pods are on
	PodTunnel = "kloop-vx" // the link to the pods of other machines

	// IPVSUnavailable is the condition of nodes whose services IPVS is asked to serve: True when nftables does, for want of modules.
	IPVSUnavailable = "KloopIPVSUnavailable"

	NodePortPrimary = "primary" // stands for a node's internal addresses among those at which node ports are served
)

package wellknown

// The words that a cluster's configuration and its nodes' machines share: the configuration is read where no node can run, too.
const (
	NetworkAuto      = "auto"      // plain routes between machines on one link, VXLAN elsewhere
	NetworkVXLAN     = "vxlan"     // VXLAN only: for networks that drop packets with addresses of pods, as many clouds' do
	NetworkRoutes    = "routes"    // plain routes only, and none to machines behind a router
	NetworkWireGuard = "wireguard" // encrypted, whatever lies between

	PodBridge    = "cni0"     // the link of a machine that its pods are on
	PodTunnel    = "kloop-vx" // the link to the pods of other machines
	PodWireGuard = "kloop-wg" // the same, encrypted

	// Annotations of a Node whose pods are reached by WireGuard: its public key, which its agent writes, and where it is reached if not
	// at its internal address, ADDRESS:PORT, which a person may write.
	WireGuardKey      = "kloop.dev/wireguard-key"
	WireGuardEndpoint = "kloop.dev/wireguard-endpoint"

	// PodNetworkTrouble is the reason of the condition NetworkUnavailable when kloop's own network of pods lacks something.
	PodNetworkTrouble = "PodNetworkTrouble"

	// SilentPeers is the condition of a Node that gets no answer from others in the encrypted network.
	SilentPeers = "kloop.dev/PodNetworkPeersSilent"

	// IPVSUnavailable is the condition of nodes whose services IPVS is asked to serve: True when nftables does, for want of modules.
	IPVSUnavailable = "KloopIPVSUnavailable"

	NodePortPrimary = "primary" // stands for a node's internal addresses among those at which node ports are served
)

package main

import (
	_ "embed"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0 crd paths=. output:crd:dir=.

//go:embed network.kloop.dev_vsxpairs.yaml
var definition []byte

// A VSXPair is two AOS-CX switches that act as one for what is connected to both.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=vsx
// +kubebuilder:printcolumn:name="ISL",type=string,JSONPath=`.status.isl`
// +kubebuilder:printcolumn:name="Keepalive",type=string,JSONPath=`.status.keepalive`
// +kubebuilder:printcolumn:name="Config-Sync",type=string,JSONPath=`.status.configSync`
// +kubebuilder:printcolumn:name="Primary",type=string,JSONPath=`.status.primary.hostname`
// +kubebuilder:printcolumn:name="Primary-State",type=string,JSONPath=`.status.primary.state`
// +kubebuilder:printcolumn:name="Secondary",type=string,JSONPath=`.status.secondary.hostname`
// +kubebuilder:printcolumn:name="Secondary-State",type=string,JSONPath=`.status.secondary.state`
// +kubebuilder:printcolumn:name="Peer",type=string,JSONPath=`.status.peer`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Why",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type VSXPair struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              VSXPairSpec   `json:"spec"`
	Status            VSXPairStatus `json:"status,omitempty"`
}

// +kubebuilder:validation:XValidation:rule="self.primary.address != self.secondary.address",message="a pair has two switches"
// +kubebuilder:validation:XValidation:rule="!(self.keepalive.port in self.interSwitchLink.ports)",message="a port of its own"
// +kubebuilder:validation:XValidation:rule="!has(self.mcLAGs) || self.mcLAGs.all(m, m.id != self.interSwitchLink.lag)"

// VSXPairSpec says what should be. Its fields are the steps of the guide by which one sets up a pair by hand.
type VSXPairSpec struct {
	// Primary has the role primary: when both live and the ISL is lost, it goes on.
	Primary Device `json:"primary"`
	// Secondary shuts its multi-chassis LAGs then.
	Secondary Device `json:"secondary"`

	InterSwitchLink ISL       `json:"interSwitchLink"`
	Keepalive       Keepalive `json:"keepalive"`

	// LinkupDelay is the time in seconds that a switch that came back waits before it brings up its multi-chassis LAGs.
	// +kubebuilder:default=180
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=600
	LinkupDelay int `json:"linkupDelay,omitempty"`
	// SystemMAC is the address of the pair. Empty: it is not managed.
	// +kubebuilder:validation:Pattern=`^([0-9a-f]{2}(:[0-9a-f]{2}){5})?$`
	SystemMAC string `json:"systemMAC,omitempty"`
	// ConfigSync names what the primary copies to the secondary, in AOS-CX's words. Absent: it is not managed.
	// +optional
	ConfigSync *ConfigSync `json:"configSync,omitempty"`

	// VLANs that both switches have. VLANs that are not named here stay as they are.
	// +kubebuilder:validation:MaxItems=1000
	// +listType=map
	// +listMapKey=id
	VLANs []VLAN `json:"vlans,omitempty"`
	// MCLAGs are link aggregation groups over both switches.
	// +kubebuilder:validation:MaxItems=200
	// +listType=map
	// +listMapKey=id
	MCLAGs []MCLAG `json:"mcLAGs,omitempty"`
	// Gateways are addresses that both switches answer for: active gateways.
	// +kubebuilder:validation:MaxItems=200
	// +listType=map
	// +listMapKey=vlan
	Gateways []Gateway `json:"activeGateways,omitempty"`
}

// A Device is one of the two switches.
type Device struct {
	// Address of its REST API.
	// +kubebuilder:validation:Pattern=`^https?://[^/ ]+$`
	Address string `json:"address"`
	// Secret of the object's namespace with the keys username and password.
	// +kubebuilder:validation:MinLength=1
	Secret string `json:"secret"`
	// Fingerprint is the SHA-256 of its certificate in hex. Empty: the system's authorities must vouch for it.
	// +kubebuilder:validation:Pattern=`^([0-9A-Fa-f]{2}(:?[0-9A-Fa-f]{2}){31})?$`
	Fingerprint string `json:"fingerprint,omitempty"`
	// KeepaliveAddress of its keepalive port, with the length of the prefix.
	// +kubebuilder:validation:Pattern=`^[0-9.]+/[0-9]+$`
	KeepaliveAddress string `json:"keepaliveAddress"`
}

// An ISL is the inter-switch link: a LAG between the two switches.
type ISL struct {
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=256
	LAG int `json:"lag"`
	// Ports on both switches.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +listType=set
	Ports []string `json:"ports"`
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4094
	NativeVLAN  int    `json:"nativeVLAN,omitempty"`
	Description string `json:"description,omitempty"`
}

// Keepalive is the second path between the switches, by which they tell a lost ISL from a lost peer.
type Keepalive struct {
	// VRF of its own.
	// +kubebuilder:default=KEEPALIVE
	// +kubebuilder:validation:MinLength=1
	VRF string `json:"vrf,omitempty"`
	// Port on both switches.
	// +kubebuilder:validation:MinLength=1
	Port        string `json:"port"`
	Description string `json:"description,omitempty"`
}

// ConfigSync says what the primary copies to the secondary.
type ConfigSync struct {
	// +kubebuilder:validation:MaxItems=64
	// +listType=set
	Features []string `json:"features"`
}

// A VLAN of both switches.
type VLAN struct {
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=4094
	ID   int    `json:"id"`
	Name string `json:"name,omitempty"`
}

// An MCLAG is a LAG over both switches.
type MCLAG struct {
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=256
	ID int `json:"id"`
	// Ports on both switches.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +listType=set
	Ports []string `json:"ports"`
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4094
	NativeVLAN int `json:"nativeVLAN,omitempty"`
	// VLANs that it carries; none: all.
	// +listType=set
	VLANs       []int  `json:"vlans,omitempty"`
	Description string `json:"description,omitempty"`
}

// A Gateway is an address in a VLAN that both switches answer for.
type Gateway struct {
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4094
	VLAN int `json:"vlan"`
	// IP that hosts have as their gateway.
	// +kubebuilder:validation:Format=ipv4
	IP string `json:"ip"`
	// MAC of that address, the same on both switches.
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{2}(:[0-9a-f]{2}){5}$`
	MAC string `json:"mac"`
	// PrimaryAddress and SecondaryAddress are the switches' own in the VLAN, with the length of the prefix.
	// +kubebuilder:validation:Pattern=`^[0-9.]+/[0-9]+$`
	PrimaryAddress string `json:"primaryAddress"`
	// +kubebuilder:validation:Pattern=`^[0-9.]+/[0-9]+$`
	SecondaryAddress string `json:"secondaryAddress"`
}

// VSXPairStatus holds what was read from the switches last, in the words of `show vsx status`.
type VSXPairStatus struct {
	ISL        string       `json:"isl,omitempty"`        // In-Sync, or what the switches say
	Keepalive  string       `json:"keepalive,omitempty"`  // Established
	ConfigSync string       `json:"configSync,omitempty"` // In-Sync
	Peer       string       `json:"peer,omitempty"`       // reachable, when each switch sees the other
	Primary    DeviceStatus `json:"primary,omitempty"`
	Secondary  DeviceStatus `json:"secondary,omitempty"`
	// Missing are the changes that are to come, in order, with what they wait for.
	Missing            []string           `json:"missing,omitempty"`
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// DeviceStatus is one switch as it was read last.
type DeviceStatus struct {
	Reachable  bool   `json:"reachable"`
	Hostname   string `json:"hostname,omitempty"`
	Platform   string `json:"platform,omitempty"`
	Software   string `json:"software,omitempty"`
	SystemMAC  string `json:"systemMAC,omitempty"`
	Role       string `json:"role,omitempty"`
	State      string `json:"state,omitempty"` // of the pair, as this switch sees it
	ISL        string `json:"isl,omitempty"`
	ISLMgmt    string `json:"islMgmt,omitempty"`
	Keepalive  string `json:"keepalive,omitempty"`
	ConfigSync string `json:"configSync,omitempty"`
	PeerMAC    string `json:"peerMAC,omitempty"`
	Problem    string `json:"problem,omitempty"` // why it could not be read
}

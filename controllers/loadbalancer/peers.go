package loadbalancer

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/resource"
)

// peerSpec is the spec of a BGPPeer of metallb.io/v1beta2, field by field. disableMP is not here: MetalLB no longer obeys it.
type peerSpec struct {
	MyASN           uint32                 `json:"myASN"`
	PeerASN         uint32                 `json:"peerASN"`
	DynamicASN      string                 `json:"dynamicASN"`
	LocalASN        uint32                 `json:"localASN"`
	PeerAddress     string                 `json:"peerAddress"`
	Interface       string                 `json:"interface"`
	SourceAddress   string                 `json:"sourceAddress"`
	PeerPort        uint16                 `json:"peerPort"`
	HoldTime        *metav1.Duration       `json:"holdTime"`
	KeepaliveTime   *metav1.Duration       `json:"keepaliveTime"`
	ConnectTime     *metav1.Duration       `json:"connectTime"`
	RouterID        string                 `json:"routerID"`
	NodeSelectors   []metav1.LabelSelector `json:"nodeSelectors"`
	Password        string                 `json:"password"`
	PasswordSecret  corev1.SecretReference `json:"passwordSecret"`
	BFDProfile      string                 `json:"bfdProfile"`
	EBGPMultiHop    bool                   `json:"ebgpMultiHop"`
	VRF             string                 `json:"vrf"`
	GracefulRestart bool                   `json:"enableGracefulRestart"`
	Both            bool                   `json:"dualStackAddressFamily"`
}

// A peer is a BGPPeer, read.
type peer struct {
	object resource.Object // as it is stored; nil in tests
	status metav1.Condition
	wellknown.BGPPeer
	address netip.Addr
	nodes   []labels.Selector

	missing string // a field that kloop has no means for
	broken  string // why nobody speaks to it; "": nodes do
}

// reason is that of the condition Ready of a peer that nobody speaks to.
func (p *peer) reason() string {
	if p.missing != "" {
		return "NotSupported"
	}
	return "Invalid"
}

// carries says whether sessions with the peer carry routes of an address's family.
func (p *peer) carries(a netip.Addr) bool { return p.Both || p.address.Is4() == a.Is4() }

// newPeer reads a BGPPeer. localASN takes the place of myASN in all that the peer hears, as MetalLB's "no-prepend replace-as". secret finds
// the Secret with the password; nil: there is none.
func newPeer(name string, spec peerSpec, secret func(name string) *corev1.Secret) *peer {
	p := &peer{BGPPeer: wellknown.BGPPeer{Name: name, Address: spec.PeerAddress, Port: spec.PeerPort, MyAS: cmp.Or(spec.LocalASN, spec.MyASN),
		PeerAS: spec.PeerASN, Internal: spec.DynamicASN == "internal", Source: spec.SourceAddress, RouterID: spec.RouterID,
		MultiHop: spec.EBGPMultiHop,
		Graceful: spec.GracefulRestart, Both: spec.Both, Password: spec.Password}}
	var err error
	p.nodes, err = selectors(spec.NodeSelectors)
	if err == nil {
		err = p.addresses()
	}
	if err == nil {
		err = p.times(spec)
	}
	if err == nil {
		err = p.sign(spec, secret)
	}
	p.missing = lacking(spec)
	switch dynamic := spec.DynamicASN != ""; {
	case p.missing != "":
		p.broken = p.missing
	case err != nil:
		p.broken = err.Error()
	case spec.MyASN == 0:
		p.broken = "myASN is 0"
	case dynamic == (spec.PeerASN != 0):
		p.broken = "it needs peerASN or dynamicASN, and not both"
	case spec.LocalASN != 0 && (p.Internal || spec.PeerASN == spec.MyASN || spec.PeerASN == spec.LocalASN):
		p.broken = "localASN is for routers of another AS than myASN and localASN: take it away, or correct peerASN"
	}
	return p
}

// lacking names a field of the peer that kloop has no means for; "": none.
func lacking(spec peerSpec) string {
	switch {
	case spec.BFDProfile != "":
		return "kloop speaks no BFD: take bfdProfile away; with a holdTime of 3s a dead router is noticed in that time"
	case spec.VRF != "":
		return "kloop has no VRFs: take vrf away"
	case spec.Interface != "":
		return "kloop needs the router's address: set peerAddress in the place of interface"
	}
	return ""
}

func (p *peer) addresses() (err error) {
	if p.address, err = netip.ParseAddr(p.Address); err != nil || p.address.Zone() != "" || p.address.Is4In6() {
		return fmt.Errorf("peerAddress %q is no IP address", p.Address)
	}
	if p.Source != "" {
		if a, err := netip.ParseAddr(p.Source); err != nil || a.Is4() != p.address.Is4() {
			return fmt.Errorf("sourceAddress %q is no IP address of the family of peerAddress", p.Source)
		}
	}
	if p.RouterID != "" {
		if a, err := netip.ParseAddr(p.RouterID); err != nil || !a.Is4() || a.IsUnspecified() {
			return fmt.Errorf("routerID %q is no IPv4 address", p.RouterID)
		}
	}
	return nil
}

func (p *peer) times(spec peerSpec) error {
	const longest = 65535 * time.Second
	hold := 90 * time.Second
	if spec.HoldTime != nil {
		hold = spec.HoldTime.Round(time.Second)
		if p.Hold = hold.Milliseconds(); hold == 0 {
			p.Hold = -1
		}
	}
	if hold < 0 || hold > 0 && hold < 3*time.Second || hold > longest {
		return fmt.Errorf("holdTime %s is neither 0 nor from 3s to %s", hold, longest)
	}
	if k := spec.KeepaliveTime; k != nil {
		if p.Keepalive = k.Milliseconds(); k.Duration < time.Second || hold > 0 && k.Duration > hold {
			return fmt.Errorf("keepaliveTime %s is not from 1s to the hold time", k.Duration)
		}
	}
	if c := spec.ConnectTime; c != nil {
		if p.Connect = c.Milliseconds(); c.Duration < time.Second || c.Duration > longest {
			return fmt.Errorf("connectTime %s is not from 1s to %s", c.Duration, longest)
		}
	}
	return nil
}

// sign finds the password: nodes read it themselves.
func (p *peer) sign(spec peerSpec, secret func(name string) *corev1.Secret) error {
	name := spec.PasswordSecret.Name
	switch {
	case name == "":
		return nil
	case spec.Password != "":
		return fmt.Errorf("password and passwordSecret exclude each other")
	case spec.PasswordSecret.Namespace != "" && spec.PasswordSecret.Namespace != wellknown.AnnounceSpace:
		return fmt.Errorf("the Secret of passwordSecret must be in the namespace %s", wellknown.AnnounceSpace)
	}
	s := secret(name)
	switch {
	case s == nil:
		return fmt.Errorf("there is no Secret %s/%s with its password", wellknown.AnnounceSpace, name)
	case s.Type != corev1.SecretTypeBasicAuth || len(s.Data[corev1.BasicAuthPasswordKey]) == 0:
		return fmt.Errorf("the Secret %s/%s is not of the type %s, or has no %s", wellknown.AnnounceSpace, name, corev1.SecretTypeBasicAuth,
			corev1.BasicAuthPasswordKey)
	}
	p.Secret, p.SecretVersion = name, s.ResourceVersion
	return nil
}

// only breaks peers that have the address of one before them, by name: two speakers can't have two sessions.
func only(peers []*peer) {
	slices.SortFunc(peers, func(a, b *peer) int { return cmp.Compare(a.Name, b.Name) })
	for i, p := range peers {
		for _, before := range peers[:i] {
			if p.broken == "" && before.broken == "" && p.address == before.address && cmp.Or(p.Port, 179) == cmp.Or(before.Port, 179) {
				p.broken = "the BGPPeer " + before.Name + " has the same address"
			}
		}
	}
}

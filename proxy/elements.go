package proxy

import (
	"encoding/binary"
	"net/netip"

	"github.com/kloop-dev/kloop/nft"
)

// The table has as many sets as this, whatever the number of services: the kernel finds a set by walking all of its table's.
const (
	services  = iota // address → list of endpoints and way
	ways             // way → its chain
	endpoints        // list and number → endpoint
	members          // list and endpoint, of lists with session affinity: which endpoints a client may keep
	virtual          // addresses that no machine has beside its services: what no service has there is refused
	hairpin          // an endpoint on this node, twice: as source and destination
	affinity         // list and client → endpoint. Packets write it, and it forgets by itself
	setCount
)

// learned bounds the clients that are remembered. More of them are spread as if there were no affinity.
const learned = 1 << 20

// set says what the kernel must know of one of the sets in a family. The numbers of types are for the nft program's eyes.
func set(which int, v6 bool) nft.Set {
	const integer, ip4, ip6, protocol, port, part = 4, 7, 8, 12, 13, 6
	size, ip := uint32(4), uint32(ip4)
	if v6 {
		size, ip = 16, ip6
	}
	return [setCount]nft.Set{
		services:  {Name: "services", KeyLen: size + 8, KeyType: ip<<(2*part) | protocol<<part | port, DataLen: 16, DataType: integer},
		ways:      {Name: "ways", KeyLen: 8, KeyType: integer, Verdicts: true},
		endpoints: {Name: "endpoints", KeyLen: 12, KeyType: integer, DataLen: size + 4, DataType: ip<<part | port},
		members:   {Name: "members", KeyLen: 8 + size + 4, KeyType: integer},
		virtual:   {Name: "virtual", KeyLen: size, KeyType: ip},
		hairpin:   {Name: "hairpin", KeyLen: 2 * size, KeyType: ip<<part | ip},
		affinity: {Name: "affinity", KeyLen: 8 + size, KeyType: integer, DataLen: size + 4, DataType: ip<<part | port,
			Learns: true, Size: learned},
	}[which]
}

// An element is one entry of one of the sets, as the kernel has it.
type element struct {
	v6  bool
	set int
	key string
}

// elements lists what a service adds to the sets. owns says which of its claims it has: an address that two services claim
// is one's only.
func (s *service) elements(owns func(*claim) bool, add func(e element, data string, w way)) {
	for i := range s.claims {
		if c := &s.claims[i]; owns(c) {
			add(element{c.at.ip.Is6(), services, addressKey(c.at)}, bits(c.list)+bits(c.id), c.way)
		}
	}
	for _, l := range s.lists {
		if s.ipvs {
			break // its virtual servers have the endpoints
		}
		for i, e := range l.ends {
			add(element{l.v6, endpoints, bits(l.id) + index(i)}, endpointKey(e), way{})
			if l.sticky {
				add(element{l.v6, members, bits(l.id) + endpointKey(e)}, "", way{})
			}
		}
	}
	for _, a := range s.virtual {
		add(element{a.Is6(), virtual, string(a.AsSlice())}, "", way{})
	}
	for _, a := range s.local {
		ip := string(a.AsSlice())
		add(element{a.Is6(), hairpin, ip + ip}, "", way{})
	}
}

// shared says whether several services may have the same element of a set: it is there as long as one has it.
func shared(set int) bool { return set == hairpin || set == virtual }

// id is the way's number.
func (w way) id() uint64 { return digest(w.name() + " " + w.from) }

// Parts of a key take a multiple of four bytes each.
func addressKey(a address) string {
	return string(a.ip.AsSlice()) + string([]byte{a.protocol, 0, 0, 0}) + portKey(a.port)
}

func endpointKey(e netip.AddrPort) string { return string(e.Addr().AsSlice()) + portKey(e.Port()) }

// readAddress and readEndpoint read them again.
func readAddress(key string) (address, bool) {
	if len(key) < 8 {
		return address{}, false
	}
	rest := len(key) - 8
	e, ok := readEndpoint(key[:rest] + key[rest+4:])
	return address{e.Addr(), key[rest], e.Port()}, ok
}

func readEndpoint(key string) (netip.AddrPort, bool) {
	if len(key) < 4 {
		return netip.AddrPort{}, false
	}
	rest := len(key) - 4
	ip, ok := netip.AddrFromSlice([]byte(key[:rest]))
	return netip.AddrPortFrom(ip, uint16(key[rest])<<8|uint16(key[rest+1])), ok
}

func portKey(p uint16) string { return string([]byte{byte(p >> 8), byte(p), 0, 0}) }

func bits(n uint64) string { return string(binary.BigEndian.AppendUint64(nil, n)) }

// index is the number of an endpoint in its list, as the kernel's generator of numbers writes it.
func index(i int) string { return string(binary.NativeEndian.AppendUint32(nil, uint32(i))) }

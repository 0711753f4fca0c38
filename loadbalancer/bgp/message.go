package bgp

import (
	"bytes"
	"encoding/binary"
	"io"
	"net/netip"
	"time"
)

// Types of messages.
const (
	typeOpen         = 1
	typeUpdate       = 2
	typeNotification = 3
	typeKeepalive    = 4
	typeRefresh      = 5
)

const (
	headerLen = 19
	maxLen    = 4096
	asTrans   = 23456 // stands for an AS number that does not fit into two octets
)

// read reads one message. It never takes more memory than the largest message has.
func read(r io.Reader) (typ byte, body []byte, err error) {
	var head [headerLen]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	if !bytes.Equal(head[:16], marker) {
		return 0, nil, refuse(1, 1, "the marker of a message is wrong: the peer speaks no BGP, or lost its place")
	}
	n := int(binary.BigEndian.Uint16(head[16:]))
	least := map[byte]int{typeOpen: 29, typeUpdate: 23, typeNotification: 21, typeKeepalive: headerLen,
		typeRefresh: 23}
	want, known := least[head[18]]
	switch {
	case !known:
		return 0, nil, refuse(1, 3, "a message of the unknown type %d", head[18])
	case n < want || n > maxLen || head[18] == typeKeepalive && n != headerLen:
		return 0, nil, refuse(1, 2, "a message of type %d and %d octets", head[18], n)
	}
	body = make([]byte, n-headerLen)
	_, err = io.ReadFull(r, body)
	return head[18], body, err
}

var marker = bytes.Repeat([]byte{0xff}, 16)

// frame makes a message of a body.
func frame(typ byte, body []byte) []byte {
	out := append(make([]byte, 0, headerLen+len(body)), marker...)
	out = binary.BigEndian.AppendUint16(out, uint16(headerLen+len(body)))
	return append(append(out, typ), body...)
}

// An open has what a side says of itself.
type open struct {
	as       uint32
	hold     time.Duration
	id       netip.Addr
	wide     bool            // 4-octet AS numbers
	families map[uint16]bool // that it takes routes of, by AFI; unicast
	restart  bool            // graceful restart
	fresh    bool            // ours only: this process has just begun
	offers   []uint16        // ours only: families of the routes that we send
}

// Address families (AFI) and the one kind of them, unicast (SAFI).
const (
	afi4    = 1
	afi6    = 2
	unicast = 1
)

// Codes of capabilities (RFC 5492).
const (
	capMultiprotocol = 1
	capRefresh       = 2
	capRestart       = 64
	capWideAS        = 65
)

// restartTime is for how long the peer keeps routes of ours without a session, in seconds.
const restartTime = 120

func (o open) bytes() []byte {
	var caps []byte
	add := func(code byte, data ...byte) { caps = append(append(caps, code, byte(len(data))), data...) }
	for _, afi := range o.offers {
		add(capMultiprotocol, 0, byte(afi), 0, unicast)
	}
	add(capRefresh)
	add(capWideAS, binary.BigEndian.AppendUint32(nil, o.as)...)
	if o.restart {
		const restarting, kept = 0x80, 0x80
		data := binary.BigEndian.AppendUint16(nil, restartTime)
		if o.fresh {
			data[0] |= restarting
		}
		for _, afi := range o.offers { // the service proxy's rules stay in the kernel: what is on its way here arrives
			data = append(data, 0, byte(afi), unicast, kept)
		}
		add(capRestart, data...)
	}
	short := uint16(asTrans)
	if o.as <= 0xffff {
		short = uint16(o.as)
	}
	body := binary.BigEndian.AppendUint16([]byte{4}, short)
	body = binary.BigEndian.AppendUint16(body, uint16(o.hold/time.Second))
	body = append(body, o.id.AsSlice()...)
	const capabilities = 2
	body = append(body, byte(len(caps)+2), capabilities, byte(len(caps)))
	return frame(typeOpen, append(body, caps...))
}

// readOpen decodes an OPEN's body, of ten octets or more.
func readOpen(b []byte) (o open, err error) {
	if len(b) < 10 {
		return o, refuse(1, 2, "an OPEN of %d octets", len(b))
	}
	if b[0] != 4 {
		return o, refuse(2, 1, "the peer speaks version %d of BGP", b[0])
	}
	o.as, o.hold = uint32(binary.BigEndian.Uint16(b[1:])), time.Duration(binary.BigEndian.Uint16(b[3:]))*time.Second
	o.id, _ = netip.AddrFromSlice(b[5:9])
	o.families = map[uint16]bool{}
	if o.hold > 0 && o.hold < 3*time.Second {
		return o, refuse(2, 6, "a hold time of %s", o.hold)
	}
	if o.id.IsUnspecified() {
		return o, refuse(2, 3, "the router ID 0.0.0.0")
	}
	if int(b[9]) != len(b)-10 {
		return o, refuse(2, 0, "parameters of %d octets in %d", b[9], len(b)-10)
	}
	multi := false
	err = each(b[10:], func(typ byte, params []byte) error {
		if typ != 2 { // of old, and gone from the standard
			return refuse(2, 4, "the unknown parameter %d", typ)
		}
		return each(params, func(code byte, data []byte) error {
			switch {
			case code == capMultiprotocol && len(data) == 4:
				multi = true
				if data[3] == unicast {
					o.families[binary.BigEndian.Uint16(data)] = true
				}
			case code == capWideAS && len(data) == 4:
				o.as, o.wide = binary.BigEndian.Uint32(data), true
			case code == capRestart && len(data) >= 2:
				o.restart = true
			}
			return nil
		})
	})
	if !multi {
		o.families[afi4] = true
	}
	if err == nil && o.as == 0 {
		err = refuse(2, 2, "the AS number 0")
	}
	return o, err
}

// each hands out parts that are led by a code and a length.
func each(b []byte, f func(code byte, data []byte) error) error {
	for len(b) > 0 {
		if len(b) < 2 || len(b) < 2+int(b[1]) {
			return refuse(2, 0, "a parameter that is longer than its place")
		}
		end := 2 + int(b[1])
		if err := f(b[0], b[2:end]); err != nil {
			return err
		}
		b = b[end:]
	}
	return nil
}

// checkUpdate looks at the lengths in an UPDATE. What it says of routes is nothing to us.
func checkUpdate(b []byte) error {
	for _, part := range []string{"withdrawn routes", "attributes"} {
		if len(b) < 2 || len(b) < 2+int(binary.BigEndian.Uint16(b)) {
			return refuse(3, 1, "an UPDATE whose %s are longer than it is", part)
		}
		b = b[2+int(binary.BigEndian.Uint16(b)):]
	}
	return nil
}

package netlinkconn

import (
	"encoding/binary"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

func message(typ uint16, seq uint32, body string) []byte {
	b := make([]byte, HeaderLen, 64)
	n := HeaderLen + len(body)
	binary.NativeEndian.PutUint32(b, uint32(n))
	binary.NativeEndian.PutUint16(b[4:], typ)
	binary.NativeEndian.PutUint32(b[8:], seq)
	b = append(b, body...)
	return append(b, make([]byte, (4-n%4)%4)...)
}

// TestSplit: messages come apart at their lengths, padding is no part of them, and a length that can't be ends it with an error.
func TestSplit(t *testing.T) {
	read := func(b []byte) (got string, err error) {
		err = split(b, func(typ, _ uint16, seq uint32, body []byte) { got += fmt.Sprint(typ, "/", seq, "/", string(body), " ") })
		return got, err
	}
	two := append(message(7, 1, "abcde"), message(8, 2, "")...)
	if got, err := read(two); err != nil || got != "7/1/abcde 8/2/ " {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := read(append(message(7, 1, "x"), 1, 2, 3)); err != nil || got != "7/1/x " { // too short for a header
		t.Errorf("%q, %v", got, err)
	}
	for _, l := range []uint32{0, HeaderLen - 1, 1 << 31, 200} {
		bad := message(7, 1, "x")
		binary.NativeEndian.PutUint32(bad, l)
		if got, err := read(bad); err == nil || got != "" {
			t.Errorf("length %d: %q, %v", l, got, err)
		}
	}
}

// TestConn asks the kernel for what there is not and hears so: no right is needed for that.
func TestConn(t *testing.T) {
	c, err := Open(unix.NETLINK_ROUTE, 10, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	q := message(0x3fff, 42, "")
	binary.NativeEndian.PutUint16(q[6:], unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	if err := c.Send(q); err != nil {
		t.Fatal(err)
	}
	heard := false
	err = c.Receive(func(typ, _ uint16, seq uint32, body []byte) {
		heard = typ == unix.NLMSG_ERROR && seq == 42 && int32(binary.NativeEndian.Uint32(body)) < 0
	})
	if err != nil || !heard {
		t.Errorf("heard %t, %v", heard, err)
	}
}

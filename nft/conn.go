package nft

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/internal/netlinkconn"
)

// A Conn is a socket to the kernel's packet filter. It is not safe for concurrent use.
type Conn struct{ sock *netlinkconn.Conn }

// room bounds the socket's buffers: a transaction must fit whole. The kernel takes only what is needed.
const room = 512 << 20

// patience bounds the wait for an answer.
const patience = 2 * time.Minute

// Open opens a socket in the network namespace of this thread.
func Open() (*Conn, error) {
	sock, err := netlinkconn.Open(unix.NETLINK_NETFILTER, patience, room) // larger transactions fail and say so
	if err != nil {
		return nil, fmt.Errorf("open a socket to nftables: %w", err)
	}
	return &Conn{sock: sock}, nil
}

// Close closes the socket.
func (c *Conn) Close() { c.sock.Close() }

// Commit sends the transaction and waits until the kernel has done it, or says why it did nothing. The batch can't be used
// again.
func (c *Conn) Commit(b *Batch) error {
	if b.Empty() {
		return nil
	}
	final := uint32(len(b.what) - 1)
	native.PutUint16(b.w.b[b.last+6:], native.Uint16(b.w.b[b.last+6:])|unix.NLM_F_ACK)
	b.message(unix.NFNL_MSG_BATCH_END, 0, "end", unix.NFNL_SUBSYS_NFTABLES, func(*wire) {})
	if err := c.sock.Send(b.w.b); err != nil {
		return fmt.Errorf("send %d bytes of rules for %s: %w", b.Len(), b.table, err)
	}
	var errs []error
	for done := false; !done; {
		err := c.sock.Receive(func(typ, _ uint16, seq uint32, body []byte) {
			if typ != unix.NLMSG_ERROR || len(body) < 4 || int(seq) >= len(b.what) {
				return
			}
			if code := int32(native.Uint32(body)); code != 0 && len(errs) < 3 {
				errs = append(errs, fmt.Errorf("%s in %s: %w", b.what[seq], b.table, syscall.Errno(-code)))
			}
			done = done || seq == final || seq == 0 // whole, or refused as a whole
		})
		if err != nil {
			return fmt.Errorf("wait for nftables on %s: %w", b.table, err)
		}
	}
	return errors.Join(errs...)
}

// ask sends one request and hands out the answer, of one message or of many. A list that changed on the way is asked for
// again; reset is called before each try.
func (c *Conn) ask(typ, flags uint16, family byte, body func(*wire), reset func(), each func([]byte)) error {
	for {
		var w wire
		at := w.begin(unix.NFNL_SUBSYS_NFTABLES<<8|typ, flags, 1, family, 0)
		body(&w)
		w.end(at)
		if err := c.sock.Send(w.b); err != nil {
			return err
		}
		reset()
		changed, done := false, false
		var failed error
		for !done {
			err := c.sock.Receive(func(typ, f uint16, _ uint32, body []byte) {
				changed = changed || f&unix.NLM_F_DUMP_INTR != 0
				switch {
				case typ == unix.NLMSG_DONE:
					done = true
				case typ == unix.NLMSG_ERROR:
					done = true
					if code := int32(native.Uint32(body)); code != 0 {
						failed = syscall.Errno(-code)
					}
				case len(body) >= 4:
					each(body[4:])
				}
			})
			if err != nil {
				return err
			}
		}
		if errors.Is(failed, unix.EINTR) || failed == nil && changed {
			continue
		}
		return failed
	}
}

// NotThere says whether an error means that a table, chain or set does not exist.
func NotThere(err error) bool { return errors.Is(err, os.ErrNotExist) }

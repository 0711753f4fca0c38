package bgp

import (
	"errors"
	"fmt"
)

// A notification ends a session: code and subcode of RFC 4271, section 4.5. It is the error with which either side does.
type notification struct {
	code, sub byte
	theirs    bool
	why       string
}

func (n *notification) Error() string {
	side := "we ended the session"
	if n.theirs {
		side = "the peer ended the session"
	}
	return fmt.Sprintf("%s: %s (%d/%d)", side, n.why, n.code, n.sub)
}

func refuse(code, sub byte, format string, args ...any) error {
	return &notification{code: code, sub: sub, why: fmt.Sprintf(format, args...)}
}

// readNotification decodes the body of a NOTIFICATION, of two octets or more.
func readNotification(b []byte) error {
	if len(b) < 2 {
		return errors.New("the peer ended the session without a reason")
	}
	return &notification{code: b[0], sub: b[1], theirs: true, why: meaning(b[0], b[1])}
}

// meaning puts a peer's notification into words.
func meaning(code, sub byte) string {
	switch {
	case code == 2 && sub == 2:
		return "it expects another AS number of us: compare myASN with its configuration"
	case code == 2 && sub == 3:
		return "it refuses our router ID: no two speakers may have the same"
	case code == 2 && sub == 6:
		return "it refuses our hold time"
	case code == 2:
		return "it refuses our OPEN"
	case code == 4:
		return "it heard nothing of us for its hold time"
	case code == 6 && sub == 1:
		return "we announce more prefixes than it takes"
	case code == 6 && (sub == 2 || sub == 4):
		return "its administrator shut it down or reset it"
	case code == 6 && sub == 3:
		return "it does not know us any more"
	case code == 6 && sub == 5:
		return "it refuses the connection: it does not know us, or not at this address"
	case code == 6 && sub == 7:
		return "it has another connection with us"
	}
	return "an error of the protocol"
}

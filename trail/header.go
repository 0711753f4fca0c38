package trail

import (
	"encoding/json"
)

// Header is the request header by which a loop over HTTP tells what it writes for: a Cause as JSON.
const Header = "X-Kloop-Cause"

// What bounds a cause that comes over the wire.
const (
	maxHeader = 4 << 10
	maxWoken  = 4
)

// Encode is the cause as the header has it; "" when it is too long for one.
func (c *Cause) Encode() string {
	data, err := json.Marshal(c)
	if err != nil || len(data) > maxHeader {
		return ""
	}
	return string(data)
}

// Decode reads a header. What is no cause, or too much of one, is none: a write is taken without it.
func Decode(header string) *Cause {
	c := &Cause{}
	if len(header) > maxHeader || json.Unmarshal([]byte(header), c) != nil || c.Loop == "" || len(c.Woken) > maxWoken {
		return nil
	}
	return c
}

package codec

import (
	"bytes"
	"errors"

	"go.yaml.in/yaml/v2"
)

// maxAliased bounds the bytes that aliases add to a document in YAML.
//
// Unlike Kubernetes, whose reader counts the nodes that aliases stand for, their length counts too: a few hundred kilobytes could ask for
// gigabytes.
const maxAliased = 3 << 20

var errAliases = errors.New("yaml: document contains excessive aliasing") // as the reader has it

// CheckAliases refuses a document in YAML that gets much longer when its aliases are written out. What is no YAML may pass.
func CheckAliases(data []byte) error {
	if !indicates(data, '&') || !indicates(data, '*') {
		return nil
	}
	var v any
	if yaml.Unmarshal(data, &v) != nil {
		return nil // whoever reads it says what is wrong
	}
	if left := len(data) + maxAliased; !weigh(v, &left) {
		return errAliases
	}
	return nil
}

// indicates says that the sign may stand before the name of an anchor, as & does, or of an alias: in front of it nothing is, a space, a
// line's end or a sign that opens a list or a map or goes on with it, and behind it a name.
func indicates(data []byte, sign byte) bool {
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return true // UTF-16
	}
	for i := 0; i+1 < len(data); i++ {
		at := bytes.IndexByte(data[i:], sign)
		if at < 0 {
			return false
		}
		i += at
		if (i == 0 || bytes.IndexByte([]byte(" \t\r\n\x85\xa8\xa9[{,-:?"), data[i-1]) >= 0) && i+1 < len(data) && data[i+1] > ' ' {
			return true
		}
	}
	return false
}

// weigh takes the length of the scalars in a tree from what is left, and says whether that was enough.
func weigh(v any, left *int) bool {
	switch x := v.(type) {
	case map[any]any:
		for key, value := range x {
			if !weigh(key, left) || !weigh(value, left) {
				return false
			}
		}
	case []any:
		for _, value := range x {
			if !weigh(value, left) {
				return false
			}
		}
	case string:
		*left -= len(x)
	}
	return *left >= 0
}

package loadbalancer

import (
	"fmt"
	"strconv"
	"strings"
)

// mostCommunities bounds the communities of an advertisement, of either kind: they fit into one message.
const mostCommunities = 60

// communities reads A:B, large:A:B:C, and the names that Community objects give to such.
func communities(words []string, names map[string]string) (plain []uint32, large [][3]uint32, err error) {
	for _, word := range words {
		text := word
		if value, ok := names[word]; ok {
			text = value
		}
		rest, isLarge := strings.CutPrefix(text, "large:")
		parts := strings.Split(rest, ":")
		bits, want := 16, 2
		if isLarge {
			bits, want = 32, 3
		}
		var n [3]uint32
		bad := len(parts) != want
		for i := 0; i < want && !bad; i++ {
			v, err := strconv.ParseUint(parts[i], 10, bits)
			n[i], bad = uint32(v), err != nil
		}
		switch {
		case bad:
			return nil, nil, fmt.Errorf("the community %q is no A:B, no large:A:B:C and no name that a Community gives", word)
		case isLarge:
			large = append(large, n)
		default:
			plain = append(plain, n[0]<<16|n[1])
		}
	}
	if len(plain) > mostCommunities || len(large) > mostCommunities {
		return nil, nil, fmt.Errorf("it has more than %d communities", mostCommunities)
	}
	return plain, large, nil
}

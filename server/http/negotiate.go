package httpapi

import (
	"cmp"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/resource/codec"
)

// format is an encoding of the wire.
type format int

const (
	asJSON format = iota
	asYAML
	asProto
)

var mediaTypes = [...]string{asJSON: codec.JSON, asYAML: codec.YAML, asProto: codec.Protobuf}

// accepted is the outcome of negotiation: an encoding, and what the object is to be shown as.
type accepted struct {
	format  format
	pretty  bool
	as      string // "" or a kind: Table, PartialObjectMetadata…
	group   string // of as
	version string
}

func (a accepted) mediaType() string { return mediaTypes[a.format] }

// clause is one range of an Accept header.
type clause struct {
	typ, sub string
	q        float64
	params   map[string]string
}

// negotiate finds the first clause that can be served. With proto false there is no protobuf but for the clauses with
// `as`, which allow judges; nil refuses them.
func negotiate(header string, proto bool, allow func(accepted) bool) (accepted, bool) {
	switch header {
	case "", "*/*", codec.JSON:
		return accepted{}, true
	case codec.Protobuf:
		if proto {
			return accepted{format: asProto}, true
		}
	}
	for _, c := range parseAccept(header) {
		acc, ok := c.match(proto)
		if ok && (acc.as == "" || allow != nil && allow(acc)) {
			return acc, true
		}
	}
	return accepted{}, false
}

func (c *clause) match(proto bool) (acc accepted, ok bool) {
	for f, typ := range mediaTypes {
		if format(f) == asProto && !proto && c.params["as"] == "" {
			continue
		}
		sub := strings.TrimPrefix(typ, "application/")
		if (c.typ == "*" || c.typ == "application") && (c.sub == "*" || c.sub == sub) {
			acc = accepted{format: format(f), as: c.params["as"], group: c.params["g"], version: c.params["v"]}
			acc.pretty = c.params["pretty"] == "1"
			return acc, true
		}
	}
	return acc, false
}

// parseAccept takes an Accept header apart, best clause first.
func parseAccept(header string) []clause {
	var list []clause
	for part := range strings.SplitSeq(header, ",") {
		if len(list) == 32 { // more is an attack, not a preference
			break
		}
		fields := strings.Split(part, ";")
		c := clause{q: 1}
		var ok bool
		if c.typ, c.sub, ok = strings.Cut(strings.TrimSpace(fields[0]), "/"); !ok && c.typ != "*" {
			continue
		}
		if c.typ == "*" {
			c.sub = "*"
		}
		c.read(fields[1:])
		list = append(list, c)
	}
	slices.SortStableFunc(list, func(a, b clause) int {
		if d := cmp.Compare(b.q, a.q); d != 0 {
			return d
		}
		return cmp.Compare(a.vague(), b.vague())
	})
	return list
}

func (c *clause) read(params []string) {
	for _, p := range params {
		key, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		if key == "q" {
			if q, err := strconv.ParseFloat(value, 64); err == nil {
				c.q = q
			}
			continue
		}
		if c.params == nil {
			c.params = map[string]string{}
		}
		c.params[key] = value
	}
}

// vague orders ranges of the same quality: exact ones first.
func (c *clause) vague() int {
	switch {
	case c.typ == "*":
		return 2
	case c.sub == "*":
		return 1
	}
	return 0
}

// routable is the coarse check of upstream's router: some clause names a served type or is */*. A range like
// application/* does not count.
func routable(header string, proto bool) bool {
	if header == "" {
		return true
	}
	for part := range strings.SplitSeq(header, ",") {
		typ, _, _ := strings.Cut(part, ";")
		switch strings.TrimSpace(typ) {
		case "*/*", codec.JSON, codec.YAML:
			return true
		case codec.Protobuf:
			if proto {
				return true
			}
		}
	}
	return false
}

// notAcceptable lists what would have been.
func notAcceptable(proto bool) error {
	return plainError(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
		"only the following media types are accepted: %s", served(proto))
}

func served(proto bool) string {
	types := []string{codec.JSON, codec.YAML}
	if proto {
		types = append(types, codec.Protobuf)
	}
	return strings.Join(types, ", ")
}

// bodyFormat says how the request body is encoded.
func bodyFormat(r *http.Request, proto bool) (format, error) {
	header := r.Header.Get("Content-Type")
	switch header {
	case "", codec.JSON:
		return asJSON, nil
	}
	typ, _, err := mime.ParseMediaType(header)
	if err == nil {
		for f, known := range mediaTypes {
			if typ == known && (proto || format(f) != asProto) {
				return format(f), nil
			}
		}
	}
	return asJSON, plainError(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType,
		"the body of the request was in an unknown format - accepted media types include: %s", served(proto))
}

// wantsPretty says that a person reads the answer: by parameter, or because the client is a browser or the like.
func wantsPretty(r *http.Request) bool {
	if strings.Contains(r.URL.RawQuery, "pretty") {
		if p := r.URL.Query().Get("pretty"); p != "" {
			pretty, _ := strconv.ParseBool(p)
			return pretty
		}
	}
	agent := r.UserAgent()
	return strings.HasPrefix(agent, "curl") || strings.HasPrefix(agent, "Wget") || strings.HasPrefix(agent, "Mozilla/5.0")
}

// plain is the same encoding without a transformation.
func (a accepted) plain() accepted { return accepted{format: a.format, pretty: a.pretty} }

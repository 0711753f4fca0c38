// Package reply does content negotiation and writes answers: objects as JSON, YAML or protobuf, compressed where it is worth it, and
// every error as a metav1.Status in the media type that the client asked for.
package reply

import (
	"cmp"
	"mime"
	"net/http"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/internal/coldsort"
	"github.com/kloop-dev/kloop/resource/codec"
)

// Format is an encoding of the wire.
type Format int

// The encodings.
const (
	JSON Format = iota
	YAML
	Proto
)

var mediaTypes = [...]string{JSON: codec.JSON, YAML: codec.YAML, Proto: codec.Protobuf}

// Accepted is the outcome of negotiation: an encoding, and what the object is to be shown as.
type Accepted struct {
	Format  Format
	Pretty  bool
	As      string // "" or a kind: Table, PartialObjectMetadata…
	Group   string // of As
	Version string
}

// MediaType is the encoding as headers name it.
func (a Accepted) MediaType() string { return mediaTypes[a.Format] }

// A Clause is one range of an Accept header.
type Clause struct {
	Type, Sub string
	q         float64
	params    map[string]string
}

// Negotiate finds the first clause that can be served. With proto false there is no protobuf but for the clauses with
// `as`, which allow judges; nil refuses them.
func Negotiate(header string, proto bool, allow func(Accepted) bool) (Accepted, bool) {
	switch header {
	case "", "*/*", codec.JSON:
		return Accepted{}, true
	case codec.Protobuf:
		if proto {
			return Accepted{Format: Proto}, true
		}
	}
	for _, c := range ParseAccept(header) {
		acc, ok := c.match(proto)
		if ok && (acc.As == "" || allow != nil && allow(acc)) {
			return acc, true
		}
	}
	return Accepted{}, false
}

func (c *Clause) match(proto bool) (acc Accepted, ok bool) {
	if s := c.params["stream"]; s != "" && s != "watch" { // there is one sort of stream, whether one is asked for or not
		return acc, false
	}
	for f, typ := range mediaTypes {
		if Format(f) == Proto && !proto && c.params["as"] == "" {
			continue
		}
		sub := strings.TrimPrefix(typ, "application/")
		if c.Sub == "*" && (c.Type == "*" || c.Type == "application") || c.Type == "application" && c.Sub == sub {
			acc = Accepted{Format: Format(f), As: c.params["as"], Group: c.params["g"], Version: c.params["v"]}
			acc.Pretty = c.params["pretty"] == "1"
			return acc, true
		}
	}
	return acc, false
}

// ParseAccept takes an Accept header apart, best clause first.
func ParseAccept(header string) []Clause {
	var list []Clause
	for part := range strings.SplitSeq(header, ",") {
		if len(list) == 32 { // more is an attack, not a preference
			break
		}
		fields := strings.Split(part, ";")
		c := Clause{q: 1}
		var ok bool
		if c.Type, c.Sub, ok = strings.Cut(strings.TrimSpace(fields[0]), "/"); !ok && c.Type != "*" {
			continue
		}
		if !ok {
			c.Sub = "*"
		}
		c.read(fields[1:])
		list = append(list, c)
	}
	coldsort.StableFunc(list, func(a, b Clause) int {
		if d := cmp.Compare(b.q, a.q); d != 0 {
			return d
		}
		return cmp.Compare(a.vague(), b.vague())
	})
	return list
}

func (c *Clause) read(params []string) {
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
func (c *Clause) vague() int {
	switch {
	case c.Type == "*":
		return 2
	case c.Sub == "*":
		return 1
	}
	return 0
}

// Routable is the coarse check of upstream's router: some clause names a served type or is */*. A range like
// application/* does not count.
func Routable(header string, proto bool) bool {
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

// NotAcceptable lists what would have been, of an object or of a stream.
func NotAcceptable(proto, stream bool) error {
	types := Served(proto)
	if stream {
		types = Streamed(proto)
	}
	return Error(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable, "only the following media types are accepted: %s", types)
}

// Streamed lists the media types of watches.
func Streamed(proto bool) string {
	types := codec.JSON + ";stream=watch"
	if proto {
		types += ", " + codec.Protobuf + ";stream=watch"
	}
	return types
}

// Served lists the media types of objects.
func Served(proto bool) string {
	types := []string{codec.JSON, codec.YAML}
	if proto {
		types = append(types, codec.Protobuf)
	}
	return strings.Join(types, ", ")
}

// BodyFormat says how the request body is encoded.
func BodyFormat(r *http.Request, proto bool) (Format, error) {
	header := r.Header.Get("Content-Type")
	switch header {
	case "", codec.JSON:
		return JSON, nil
	}
	typ, _, err := mime.ParseMediaType(header)
	if err == nil {
		for f, known := range mediaTypes {
			if typ == known && (proto || Format(f) != Proto) {
				return Format(f), nil
			}
		}
	}
	return JSON, Error(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType,
		"the body of the request was in an unknown format - accepted media types include: %s", Served(proto))
}

// WantsPretty says that a person reads the answer: by parameter, or because the client is a browser or the like.
func WantsPretty(r *http.Request) bool {
	if strings.Contains(r.URL.RawQuery, "pretty") {
		if p := r.URL.Query().Get("pretty"); p != "" {
			pretty, _ := strconv.ParseBool(p)
			return pretty
		}
	}
	agent := r.UserAgent()
	return strings.HasPrefix(agent, "curl") || strings.HasPrefix(agent, "Wget") || strings.HasPrefix(agent, "Mozilla/5.0")
}

// APIVersion is that of As.
func (a Accepted) APIVersion() string { return a.Group + "/" + a.Version }

// Plain is the same encoding without a transformation.
func (a Accepted) Plain() Accepted { return Accepted{Format: a.Format, Pretty: a.Pretty} }

// Takes says whether an Accept header takes a page of one type, as upstream's router reads it: by the type or by */*.
func Takes(header, typ string) bool {
	if header == "" {
		return true
	}
	for part := range strings.SplitSeq(header, ",") {
		one, _, _ := strings.Cut(part, ";")
		if one = strings.TrimSpace(one); one == "*/*" || one == typ {
			return true
		}
	}
	return false
}

package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"sort"
	"strconv"
	"strings"
)

// Normalisation turns what a server answered into facts that any correct
// server would repeat: values a server makes up (uids, times, resource
// versions, name suffixes, hashes, addresses) become tokens numbered by first
// appearance, so that equality between fields stays visible; prose is dropped.

var (
	reX509   = regexp.MustCompile(`X509SHA256=[0-9a-f]{64}`)
	reUUID   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	reTime   = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$`)
	reIPv4   = regexp.MustCompile(`\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b`)
	reJWT    = regexp.MustCompile(`^eyJ[\w-]+\.[\w-]+\.[\w-]+$`)
	rePort   = regexp.MustCompile(`:(3[0-2]\d{3})/`)
	reKAA    = regexp.MustCompile(`kube-api-access-[a-z0-9]{5}`)
	reEvent  = regexp.MustCompile(`\.[0-9a-f]{14,16}$`)
	reAge    = regexp.MustCompile(`^(\d+[ydhms]){1,3}$|^<unknown>$`)
	reOAPI   = regexp.MustCompile(`hash=[0-9A-Fa-f]+`)
	reSuffix = regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{5}$`) // what generateName appends
	reMgr    = regexp.MustCompile(`conflicts? with "([^"]*)"(?: with subresource "([^"]*)")?`)
)

// references are fields that name another object, which may have a generated name.
var references = map[string]bool{"targetRef": true, "involvedObject": true, "regarding": true, "related": true, "claimRef": true}

const rvMark = "\x01rv:" // start of a resourceVersion that is ranked at the end

// normalizer masks the results of one scenario.
type normalizer struct {
	s       *Scenario
	literal map[string]string // run-time strings (namespace, id) -> token
	names   map[string]string // generated names -> token pattern
	hashes  map[string]bool   // template hashes
	masks   []*regexp.Regexp

	numbering bool
	numbers   map[string]map[string]int // class -> value -> number
	pairs     []string                  // literal and hash replacements, longest first
}

func newNormalizer(s *Scenario, literal map[string]string) *normalizer {
	n := &normalizer{s: s, literal: literal, names: map[string]string{}, hashes: map[string]bool{}, numbers: map[string]map[string]int{}}
	for _, m := range s.Mask {
		n.masks = append(n.masks, regexp.MustCompile(m.Regex))
	}
	return n
}

// learn looks for generated names and hashes in a raw body.
func (n *normalizer) learn(v any) {
	switch t := v.(type) {
	case []any:
		for _, e := range t {
			n.learn(e)
		}
	case map[string]any:
		if g, _ := t["generateName"].(string); g != "" {
			if name, _ := t["name"].(string); strings.HasPrefix(name, g) {
				n.names[name] = g
			}
		}
		if d, _ := t["details"].(map[string]any); t["kind"] == "Status" && d != nil {
			if s, _ := d["name"].(string); len(s) > 5 && n.s.has(`enerateName":"`+s[:len(s)-5]+`"`) {
				n.names[s] = s[:len(s)-5]
			}
		}
		for k, e := range t {
			if m, ok := e.(map[string]any); ok && references[k] {
				if s, _ := m["name"].(string); reSuffix.MatchString(s) && !n.s.has(`"`+s+`"`) && n.names[s] == "" {
					n.names[s] = s[:len(s)-5]
				}
			}
			switch k {
			case "pod-template-hash", "controller-revision-hash", "controller.kubernetes.io/hash":
				if s, ok := e.(string); ok && s != "" && !strings.HasPrefix(s, "{") {
					if i := strings.LastIndexByte(s, '-'); i >= 0 {
						s = s[i+1:]
					}
					if !strings.Contains(n.s.text, `"`+s+`"`) {
						n.hashes[s] = true
					}
				}
			}
			n.learn(e)
		}
	}
}

func (n *normalizer) prepare() {
	type pair struct{ from, to string }
	var ps []pair
	for from, to := range n.literal {
		ps = append(ps, pair{from, to})
	}
	for h := range n.hashes {
		ps = append(ps, pair{h, "\x02hash:" + h + "\x03"})
	}
	for name, g := range n.names {
		ps = append(ps, pair{name, g + "\x02gen:" + name + "\x03"})
	}
	sort.Slice(ps, func(i, j int) bool {
		if len(ps[i].from) != len(ps[j].from) {
			return len(ps[i].from) > len(ps[j].from)
		}
		return ps[i].from < ps[j].from
	})
	n.pairs = nil
	for _, p := range ps {
		n.pairs = append(n.pairs, p.from, p.to)
	}
}

func (n *normalizer) token(class, value string) string {
	if !n.numbering {
		return "<" + class + ">"
	}
	m := n.numbers[class]
	if m == nil {
		m = map[string]int{}
		n.numbers[class] = m
	}
	if m[value] == 0 {
		m[value] = len(m) + 1
	}
	return fmt.Sprintf("<%s-%d>", class, m[value])
}

var reMark = regexp.MustCompile("\x02(hash|gen):([^\x02\x03]*)\x03")

// str masks one string.
func (n *normalizer) str(s string) string {
	if strings.HasPrefix(s, rvMark) {
		if !n.numbering {
			return "<rv>"
		}
		return s
	}
	input := len(s) > 3 && n.s.has(s)
	if reTime.MatchString(s) && !input {
		if i := strings.IndexByte(s, '.'); i > 0 {
			return fmt.Sprintf("<time.%d>", len(strings.TrimRight(s[i+1:], "Z")))
		}
		return "<time>"
	}
	if strings.HasPrefix(s, "-----BEGIN ") && !input {
		return "<pem>"
	}
	if strings.HasPrefix(s, "LS0tLS1CRUdJT") && !input {
		return "<pem-base64>"
	}
	s = replaceAll(s, n.pairs)
	for i := 0; i < 3 && strings.Contains(s, "\x02"); i++ { // a generated name may hold a hash
		s = reMark.ReplaceAllStringFunc(s, func(m string) string {
			sub := reMark.FindStringSubmatch(m)
			if sub[1] == "gen" {
				return n.token("gen", sub[2])
			}
			return n.token("hash", sub[2])
		})
		s = replaceAll(s, n.pairs)
	}
	s = reUUID.ReplaceAllStringFunc(s, func(m string) string {
		if n.s.has(m) {
			return m
		}
		return n.token("uid", m)
	})
	s = reIPv4.ReplaceAllStringFunc(s, func(m string) string {
		if n.s.has(m) || m == "0.0.0.0" || m == "127.0.0.1" {
			return m
		}
		return n.token("ip", m)
	})
	s = rePort.ReplaceAllStringFunc(s, func(m string) string {
		if n.s.has(m[1:len(m)-1]) || strings.Contains(n.s.text, "Port\":"+m[1:len(m)-1]) {
			return m
		}
		return ":" + n.token("nodeport", m[1:len(m)-1]) + "/"
	})
	s = reX509.ReplaceAllString(s, "X509SHA256=<hash>")
	s = reKAA.ReplaceAllString(s, "kube-api-access-<gen>")
	s = reOAPI.ReplaceAllString(s, "hash=<hash>")
	for i, re := range n.masks {
		s = re.ReplaceAllString(s, n.s.Mask[i].With)
	}
	return s
}

func replaceAll(s string, pairs []string) string {
	for i := 0; i+1 < len(pairs); i += 2 {
		if strings.Contains(s, pairs[i]) {
			s = strings.ReplaceAll(s, pairs[i], pairs[i+1])
		}
	}
	return s
}

// has reports whether a string is one of the scenario's own inputs.
func (s *Scenario) has(v string) bool { return strings.Contains(s.text, v) }

// strings masks every string (and map key) below v.
func (n *normalizer) strings(v any) any {
	switch t := v.(type) {
	case string:
		return n.str(t)
	case []any:
		out := make([]any, len(t))
		for i, e := range t {
			out[i] = n.strings(e)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(t))
		for _, k := range sortedKeys(t) {
			out[n.str(k)] = n.strings(t[k])
		}
		return out
	}
	return v
}

// reduce drops prose and sorts what has no order, given the key v sits under.
func (n *normalizer) reduce(key string, v any) any {
	switch t := v.(type) {
	case map[string]any:
		if t["kind"] == "Status" && t["apiVersion"] == "v1" {
			return n.status(t)
		}
		out := make(map[string]any, len(t))
		for k, e := range t {
			if k == "description" && (key == "columnDefinitions" || t["kind"] == "APIService") {
				continue
			}
			v, ok := n.fact(key, k, e, t)
			if !ok {
				v = n.reduce(k, e)
			}
			out[k] = v
		}
		return out
	case []any:
		out := make([]any, len(t))
		for i, e := range t {
			out[i] = n.reduce(key, e)
		}
		return out
	case string:
		if reJWT.MatchString(t) {
			return n.jwt(t)
		}
		if reTime.MatchString(t) {
			return t
		}
	}
	return v
}

// fact returns what remains of a field k of t, which sits under key: of what differs from run to run a name for it. ok is false when
// the field is reduced like all others.
func (n *normalizer) fact(key, k string, e any, t map[string]any) (v any, ok bool) {
	text, isText := e.(string)
	list, isList := e.([]any)
	switch k {
	case "resourceVersion":
		return n.revision(key, text, t), isText && (key == "metadata" || text != "" && text != "0" && !n.s.has(`"`+text+`"`))
	case "continue":
		return "<continue>", key == "metadata" && text != ""
	case "message", "note", "evaluationError", "warning":
		return "<text>", text != "" && !n.s.has(mustJSON(text))
	case "reason": // access reviews explain themselves in prose
		return "<text>", key == "status" && strings.Contains(mustJSON(t), `"allowed":`)
	case "error":
		return "<text>", key == "status"
	case "storageVersionHash":
		return "<hash>", true
	case "serverAddressByClientCIDRs":
		return "<addresses>", true
	case "nodePort", "healthCheckNodePort":
		f, isNumber := e.(float64)
		return "\x02port" + scalar(f), isNumber && f >= 30000 && !strings.Contains(n.s.text, scalar(f))
	case "managedFields":
		if isList {
			return n.sorted(n.reduce(k, list)), true
		}
	case "conditions":
		if isList && key == "status" {
			return n.sorted(n.reduce(k, list)), true
		}
	case "name":
		return reEvent.ReplaceAllString(text, ".<hex>"), key == "metadata" && reEvent.MatchString(text)
	case "rows":
		if t["kind"] == "Table" {
			return n.rows(t), true
		}
	}
	return nil, false
}

// revision returns what remains of a resourceVersion.
func (n *normalizer) revision(key, text string, of map[string]any) string {
	if key != "metadata" {
		return "<rv>"
	}
	_, hasUID := of["uid"]
	_, hasName := of["name"]
	switch {
	case text == "" || text == "0":
		return text
	case !hasUID && !hasName:
		return "<rv-list>"
	case n.s.RV == "mask" || n.s.RV == "" && n.s.profile() == "full":
		return "<rv>"
	}
	return rvMark + text
}

// status keeps the facts of a Status: code, reason and the causes' reasons and fields.
func (n *normalizer) status(t map[string]any) map[string]any {
	out := map[string]any{}
	for _, k := range []string{"apiVersion", "kind", "status", "reason", "code"} {
		if v, ok := t[k]; ok {
			out[k] = v
		}
	}
	d, ok := t["details"].(map[string]any)
	if !ok {
		return out
	}
	od := map[string]any{}
	for _, k := range []string{"name", "group", "kind", "uid"} {
		if v, ok := d[k]; ok {
			od[k] = v
		}
	}
	if _, ok := d["retryAfterSeconds"]; ok {
		od["retryAfterSeconds"] = "<seconds>"
	}
	if l, ok := d["causes"].([]any); ok {
		var causes []any
		for _, e := range l {
			m, _ := e.(map[string]any)
			c := map[string]any{}
			for _, k := range []string{"reason", "field"} {
				if v, ok := m[k]; ok {
					c[k] = v
				}
			}
			if msg, _ := m["message"].(string); c["reason"] == "FieldManagerConflict" {
				if sub := reMgr.FindStringSubmatch(msg); sub != nil {
					c["manager"] = strings.TrimSpace(sub[1] + " " + sub[2])
				}
			}
			causes = append(causes, c)
		}
		od["causes"] = n.sorted(causes)
	}
	out["details"] = od
	return out
}

// rows keeps Table cells; ages become <age>.
func (n *normalizer) rows(t map[string]any) any {
	rows, ok := t["rows"].([]any)
	if !ok {
		return t["rows"]
	}
	out := make([]any, len(rows))
	for i, r := range rows {
		m, _ := n.reduce("rows", r).(map[string]any)
		if cells, ok := m["cells"].([]any); ok {
			for j, c := range cells {
				if s, ok := c.(string); ok && reAge.MatchString(s) && !n.s.has(`"`+s+`"`) {
					cells[j] = "<age>"
				}
			}
		}
		out[i] = m
	}
	return out
}

// jwt shows the header and claims of a token with the random parts masked.
func (n *normalizer) jwt(s string) any {
	out := map[string]any{}
	for i, name := range []string{"header", "claims"} {
		raw, err := base64.RawURLEncoding.DecodeString(strings.Split(s, ".")[i])
		var m map[string]any
		if err != nil || json.Unmarshal(raw, &m) != nil {
			return "<token>"
		}
		iat, _ := m["iat"].(float64)
		exp, _ := m["exp"].(float64)
		if exp > 0 {
			m["exp"] = "iat+" + strconv.Itoa(int(exp-iat))
		}
		for _, k := range []string{"iat", "nbf", "kid", "jti"} {
			if _, ok := m[k]; ok {
				m[k] = "<" + k + ">"
			}
		}
		if k, ok := m["kubernetes.io"].(map[string]any); ok {
			if _, ok := k["warnafter"]; ok {
				k["warnafter"] = "<time>"
			}
		}
		out[name] = m
	}
	return map[string]any{"<jwt>": out}
}

// sorted orders a list by the masked JSON of its elements.
func (n *normalizer) sorted(v any) any {
	l, ok := v.([]any)
	if !ok {
		return v
	}
	type item struct {
		key string
		v   any
	}
	items := make([]item, len(l))
	was := n.numbering
	n.numbering = false
	for i, e := range l {
		items[i] = item{mustJSON(n.strings(e)), e}
	}
	n.numbering = was
	sort.SliceStable(items, func(i, j int) bool { return items[i].key < items[j].key })
	out := make([]any, len(l))
	for i := range items {
		out[i] = items[i].v
	}
	return out
}

package torture

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fewCosts is what a normal run makes. It judges memory alone: processor time is for long runs, on a machine that does nothing else.
const fewCosts = 600

var costs = flag.Int("costs", fewCosts, "how many requests are made to find one that costs more than its size explains")

// What a request may cost: so much, and so much more for a byte of it.
const (
	maxCPU       = time.Second
	cpuOfByte    = 2 * time.Microsecond
	maxAlloc     = 64 << 20
	allocOfByte  = 2000
	biggest      = 200 << 10
	seldomBigger = 1 << 20 // one in ten
	deepest      = 20000
	kindsInCosts = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%[1]ss.torture.example.com"},
"spec":{"group":"torture.example.com","names":{"plural":"%[1]ss","kind":"%[2]s"},"scope":"Namespaced",
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":%[3]s}}]}}`
)

// looseSchema lets everything through; tightSchema has a field of each sort.
const (
	looseSchema = `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`
	tightSchema = `{"type":"object","properties":{"a":{"type":"object"},"l":{"type":"array","items":{"type":"integer"}},
"set":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
"free":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
"keyed":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","required":["k"],
"properties":{"k":{"type":"string"},"v":{"type":"integer","default":1}}}},
"m":{"type":"object","additionalProperties":{"type":"string","pattern":"^(a+)+$"}}}}`
)

// A question is a request whose cost is taken.
type question struct{ what, method, path, typ, body string }

// usage is what this process has spent.
func usage(t *testing.T) (cpu time.Duration, alloc uint64) {
	t.Helper()
	var ru syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &ru); err != nil {
		t.Fatal(err)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano()), m.TotalAlloc
}

// cost is what a request and its answer cost in this process.
func (x *target) cost(t *testing.T, q question) (cpu time.Duration, alloc uint64, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cpu0, alloc0 := usage(t)
	req, err := http.NewRequestWithContext(ctx, q.method, x.host+q.path, strings.NewReader(q.body))
	if err != nil {
		t.Fatal(err)
	}
	if q.typ != "" {
		req.Header.Set("Content-Type", q.typ)
	}
	res, err := x.door.Do(req)
	if err != nil {
		t.Fatalf("%s: %s %.200s: %v", q.what, q.method, q.path, err)
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Fatalf("%s: %s %.200s: %v", q.what, q.method, q.path, err)
	}
	cpu1, alloc1 := usage(t)
	return cpu1 - cpu0, alloc1 - alloc0, res.StatusCode
}

// No request costs more than a second, or 64 MiB, that its size does not explain.
func TestCost(t *testing.T) {
	x := fuzzed()
	if x.err != nil {
		t.Fatal(x.err)
	}
	x.furnish(t)
	r := rand.New(rand.NewPCG(*seed, 7))
	codes, mistakes := map[int]int{}, uint64(0)
	var dearest string
	var most time.Duration
	for range *costs {
		q := ask(r)
		if mistakes = 0; q.what == "a rule" { // CEL tells the whole line with each of up to 100 mistakes in it
			mistakes = 1 << 30
		}
		size := len(q.body) + len(q.path)
		if strings.Contains(q.body, `"op":"copy"`) || strings.Contains(q.body, ",*x") { // what is copied counts, and what aliases stand for
			size += 3 << 20
		}
		cpu, alloc, code := x.cost(t, q)
		for range 2 { // what else this process did must not count
			if !excessive(cpu, alloc-min(alloc, mistakes), size) {
				break
			}
			c, a, _ := x.cost(t, q)
			cpu, alloc = min(cpu, c), min(alloc, a)
		}
		codes[code]++
		if excessive(cpu, alloc-min(alloc, mistakes), size) {
			t.Errorf("%s: %s %.120s (%s), %d bytes, %d: %v and %d MiB: %.200q…%q", q.what, q.method, q.path, q.typ, size, code,
				cpu, alloc>>20, q.body, q.body[max(0, len(q.body)-60):])
		}
		if extra := cpu - time.Duration(size)*cpuOfByte; extra > most {
			most, dearest = extra, fmt.Sprintf("%s %s %.80s (%s): %d bytes, %v, %d MiB", q.what, q.method, q.path, q.typ, size, cpu, alloc>>20)
		}
	}
	t.Logf("answers %v; the dearest: %s", codes, dearest)
}

func excessive(cpu time.Duration, alloc uint64, size int) bool {
	slow := *costs > fewCosts && cpu > maxCPU+time.Duration(size)*cpuOfByte
	return slow || alloc > uint64(maxAlloc+size*allocOfByte)
}

// furnish makes what requests are about.
func (x *target) furnish(t *testing.T) {
	t.Helper()
	x.say(t, http.MethodPost, "/api/v1/namespaces/default/serviceaccounts", "application/json", `{"metadata":{"name":"default"}}`)
	x.say(t, http.MethodPost, podsPath, "application/json", victimPod)
	for kind, schema := range map[string]string{"Loose": looseSchema, "Tight": tightSchema} {
		x.say(t, http.MethodPost, crds, "application/json", fmt.Sprintf(kindsInCosts, strings.ToLower(kind), kind, schema))
		path := customs(strings.ToLower(kind))
		x.served(t, path)
		x.say(t, http.MethodPost, path, "application/json", fmt.Sprintf(object("torture.example.com/v1", kind, `"x":%s`), "victim", "1"))
	}
}

func customs(kind string) string {
	return "/apis/torture.example.com/v1/namespaces/default/" + kind + "s"
}

// size is a number of repetitions: small ones are as likely as big ones.
func size(r *rand.Rand, most int) int {
	n := 1
	for n < most && r.IntN(6) > 0 {
		n *= 2 + r.IntN(2)
	}
	return min(n, most)
}

// ask makes a question.
func ask(r *rand.Rand) question {
	switch r.IntN(6) {
	case 0:
		return inQuery(r)
	case 1:
		return review(r)
	case 2:
		return rules(r)
	}
	return inBody(r)
}

// a place is where a strange value is put: an object's text with a hole, where it is posted and what it is called there.
type place struct{ path, name, text string }

var places = []place{
	{fuzzPaths[false], "victim", object("v1", "ConfigMap", `"data":%s`)},
	{fuzzPaths[false], "victim", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%s","labels":%s}}`},
	{fuzzPaths[false], "victim", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%s","managedFields":%s}}`},
	{fuzzPaths[false], "victim", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%s","ownerReferences":%s}}`},
	{fuzzPaths[false], "victim", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%s","finalizers":%s}}`},
	{podsPath, "victim", object("v1", "Pod", `"spec":{"$setElementOrder/containers":%[2]s,"containers":%[2]s}`)},
	{podsPath, "victim", object("v1", "Pod", `"spec":{"containers":%s}`)},
	{podsPath, "victim", object("v1", "Pod", `"spec":{"containers":[{"name":"c","image":"i","env":%s}]}`)},
	{podsPath, "victim", object("v1", "Pod", `"spec":{"tolerations":%s,"containers":[{"name":"c","image":"i"}]}`)},
	{podsPath, "victim", object("v1", "Pod", `"spec":{"containers":[{"name":"c","image":"i","resources":{"limits":%s}}]}`)},
	{customs("loose"), "victim", object("torture.example.com/v1", "Loose", `"x":%s`)},
	{customs("tight"), "victim", object("torture.example.com/v1", "Tight", `"l":%s`)},
	{customs("tight"), "victim", object("torture.example.com/v1", "Tight", `"set":%s`)},
	{customs("tight"), "victim", object("torture.example.com/v1", "Tight", `"keyed":%s`)},
	{customs("tight"), "victim", object("torture.example.com/v1", "Tight", `"free":%s`)},
	{customs("tight"), "victim", object("torture.example.com/v1", "Tight", `"m":%s`)},
	{"/apis/rbac.authorization.k8s.io/v1/clusterroles", "victim", object("rbac.authorization.k8s.io/v1", "ClusterRole", `"rules":%s`)},
	{"/apis/networking.k8s.io/v1/namespaces/default/networkpolicies", "victim",
		object("networking.k8s.io/v1", "NetworkPolicy", `"spec":{"podSelector":{"matchExpressions":%s}}`)},
	{"/api/v1/namespaces/default/services", "victim", object("v1", "Service", `"spec":{"ports":%s}`)},
	{crds, "foos.torture.example.com", object("apiextensions.k8s.io/v1", "CustomResourceDefinition", `"spec":{"group":"torture.example.com",
"names":{"plural":"foos","kind":"Foo"},"scope":"Namespaced","versions":[{"name":"v1","served":true,"storage":true,
"schema":{"openAPIV3Schema":{"type":"object","properties":%s}}}]}`)},
}

// object is the text of an object with a hole for its name and one in the rest.
func object(version, kind, rest string) string {
	return `{"apiVersion":"` + version + `","kind":"` + kind + `","metadata":{"name":"%s"},` + rest + `}`
}

// inBody puts a strange value into an object, which is created, replaced, patched or applied, in one format or the other.
func inBody(r *rand.Rand) question {
	p, value := pick(r, places), strange(r)
	q := question{"a value", http.MethodPost, p.path + dryRun, "application/json", fmt.Sprintf(p.text, "new", value)}
	there := p.path + "/" + p.name + dryRun
	text := fmt.Sprintf(p.text, p.name, value)
	switch r.IntN(9) {
	case 0, 1:
		q.typ = "application/yaml"
	case 6:
		q.typ = "application/yaml" // each alias stands for all of the value
		q.body = fmt.Sprintf(p.text, "new", "[&x "+value+strings.Repeat(",*x", size(r, deepest))+"]")
	case 7:
		q.method, q.path, q.typ, q.body = http.MethodPatch, there, "application/json-patch+json", shifts(r, value)
	case 2:
		q.method, q.path, q.body = http.MethodPut, there, text
	case 3:
		q.method, q.path, q.typ, q.body = http.MethodPatch, there, pick(r, types[4:8]), text
	case 4:
		q.method, q.path, q.typ, q.body = http.MethodPatch, there+"&force=true", "application/apply-patch+yaml", text
	case 5:
		q.method, q.path, q.typ = http.MethodPatch, there, "application/json-patch+json"
		copies := strings.Repeat(`,{"op":"copy","from":"/x","path":"/x/-"}`, size(r, 9000))
		q.body = `[{"op":"add","path":"/x","value":` + value + `}` + copies + `]`
	}
	return q
}

// shifts is a JSON patch that puts a value somewhere, and goes into it again and again.
func shifts(r *rand.Rand, value string) string {
	path := "/x" + pick(r, []string{"/0", "/-", "/-1", strings.Repeat("/a", size(r, 300)), strings.Repeat("/0", size(r, 300))})
	op := pick(r, []string{`,{"op":"add","path":%q,"value":1}`, `,{"op":"remove","path":%q}`, `,{"op":"move","from":"/x","path":%q}`,
		`,{"op":"test","path":%q,"value":1}`})
	return `[{"op":"add","path":"/x","value":` + value + `}` + strings.Repeat(fmt.Sprintf(op, path), size(r, 9000)) + `]`
}

// strange is a JSON value, or YAML in flow style, that has a lot of something.
func strange(r *rand.Rand) string {
	item := pick(r, []string{`1`, `"a"`, `{}`, `[]`, `null`, `"1e-999999999"`, `{"k":"a"}`, `{"name":"c","image":"i","value":"$(c)$(c)"}`,
		`-0.0`, `1e999`,
		`{"key":"a","operator":"In","values":["b"]}`, `{"port":1,"name":"a"}`, `{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}`,
		`{"apiVersion":"v1","kind":"Pod","name":"a","uid":"a","controller":true}`, `{"name":"a","image":"i"}`, `"a.b/a"`,
		`"` + strings.Repeat("a", 40) + `!"`, `{"manager":"m","operation":"Apply","apiVersion":"v1","time":"2020-01-01T00:00:00Z",` +
			`"fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:a":{}}}}`})
	n, limit := size(r, deepest), biggest
	if r.IntN(10) == 0 {
		limit = seldomBigger
	}
	if n*len(item) > limit {
		n = limit / len(item)
	}
	switch r.IntN(8) {
	case 0:
		return strings.Repeat(`{"a":`, n) + item + strings.Repeat("}", n)
	case 1:
		return strings.Repeat("[", n) + item + strings.Repeat("]", n)
	case 2:
		return strings.Repeat(`{"not":`, n) + "{}" + strings.Repeat("}", n)
	case 3:
		return "{" + strings.Repeat(`"a":`+item+",", n) + `"b":1}`
	case 4:
		return `"` + strings.Repeat(pick(r, []string{"a", "a,", "$(a)", "\\u0041", "\\\\", "("}), n) + `"`
	case 5, 6:
		var b strings.Builder
		for i := range n / 2 {
			fmt.Fprintf(&b, "%q:%s,", fmt.Sprint("k", i), item)
		}
		return "{" + b.String() + `"z":` + item + "}"
	}
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.ReplaceAll(item, `a"`, fmt.Sprintf(`a%d"`, i)) + ",")
	}
	return "[" + b.String() + item + "]"
}

// inQuery asks for a list with many selectors, or a path of many parts.
func inQuery(r *rand.Rand) question {
	n := size(r, 800)
	labels := pick(r, []string{"a%d=b,", "a%d in (b,c),", "!a%d,", "a%d>5,", "a in (b%d),", "((((%d,", "a%d notin (x),"})
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, labels, i)
	}
	key := pick(r, []string{"labelSelector", "fieldSelector", "continue", "x", "resourceVersion", "dryRun"})
	path := pick(r, []string{fuzzPaths[false], podsPath, customs("loose"), "/openapi/v3", "/apis", "/metrics", "/readyz"})
	path += "?dryRun=All&" + key + "=" + url.QueryEscape(b.String())
	return question{what: "a query", method: pick(r, []string{"GET", "GET", "DELETE"}), path: path}
}

// review asks who may do what, with much to compare.
func review(r *rand.Rand) question {
	n := size(r, 5000)
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"key":"k%d","operator":"In","values":["v"]},`, i%(1+r.IntN(n)))
	}
	list := strings.TrimSuffix(b.String(), ",")
	kind := pick(r, []string{"labelSelector", "fieldSelector"})
	return question{"a review", http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "application/json",
		`{"spec":{"resourceAttributes":{"verb":"list","resource":"pods","` + kind + `":{"requirements":[` + list + `]}}}}`}
}

// rules are expressions that may be dear to compile, in a definition or a policy.
func rules(r *rand.Rand) question {
	n := size(r, 2000)
	part := pick(r, []string{"self.x + ", "(", "[", "self.x == 1 ? self.x : ", "!", "has(self.x) && ", "'a' + ", "{'a':", "[1].map(y, ",
		"quantity('1e99999999').sign() + "})
	rule := strings.Repeat(part, n) + "1" + strings.Repeat(pick(r, []string{"", ")", "]", "}"}), n)
	schema := fmt.Sprintf(`{"x":{"type":"integer"}},"x-kubernetes-validations":[{"rule":%q}]`, rule)
	body := fmt.Sprintf(places[len(places)-1].text, "foos.torture.example.com", schema)
	path := crds
	if r.IntN(2) == 0 {
		path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
		body = fmt.Sprintf(object("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", `"spec":{"matchConstraints":{"resourceRules":
[{"apiGroups":["*"],"apiVersions":["*"],"operations":["*"],"resources":["nothing"]}]},"validations":[{"expression":%q}]}`), "p", rule)
	}
	return question{what: "a rule", method: http.MethodPost, path: path + dryRun, typ: "application/json", body: body}
}

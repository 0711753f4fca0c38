package trail

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// An Exporter sends writes as spans to a collector of OpenTelemetry, in OTLP's JSON form over HTTP. A cascade is a trace:
// what somebody from outside did is its first span, and every write is below the one that led to it.
type Exporter struct {
	URL    string       // http://collector:4318/v1/traces
	Client *http.Client // nil: one that gives up after ten seconds

	traces map[int64]string // trace of a write, for the newest
	order  []int64
}

// remembered is the number of writes that may still become causes.
const remembered = 1 << 14

type attribute struct {
	Key   string            `json:"key"`
	Value map[string]string `json:"value"`
}

type span struct {
	TraceID    string      `json:"traceId"`
	SpanID     string      `json:"spanId"`
	Parent     string      `json:"parentSpanId,omitempty"`
	Name       string      `json:"name"`
	Kind       int         `json:"kind"`
	Start      string      `json:"startTimeUnixNano"`
	End        string      `json:"endTimeUnixNano"`
	Attributes []attribute `json:"attributes"`
}

// spans turns writes into spans. It must see the writes in their order.
func (e *Exporter) spans(list []Write) (out []span) {
	if e.traces == nil {
		e.traces = map[int64]string{}
	}
	for i := range list {
		w := &list[i]
		s := span{SpanID: spanID(w.Rev), Name: w.Verb + " " + w.Resource, Kind: 1, Start: strconv.FormatInt(w.At.UnixNano(), 10)}
		s.End = s.Start
		if p, ok := w.Parent(); ok && e.traces[p.Rev] != "" {
			s.TraceID, s.Parent = e.traces[p.Rev], spanID(p.Rev)
		} else {
			sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(w.UID), uint64(w.Rev)))
			s.TraceID = hex.EncodeToString(sum[:16])
		}
		for _, a := range []struct{ key, value string }{{"k8s.namespace.name", w.Namespace}, {"k8s.object.name", w.Name},
			{"k8s.object.uid", w.UID},
			{"k8s.object.resource", w.Resource}, {"kloop.by", w.By()}, {"kloop.what", w.What}, {"enduser.id", w.User}} {
			if a.value != "" {
				s.Attributes = append(s.Attributes, attribute{a.key, map[string]string{"stringValue": a.value}})
			}
		}
		e.remember(w.Rev, s.TraceID)
		out = append(out, s)
	}
	return out
}

func (e *Exporter) remember(rev int64, trace string) {
	if len(e.order) >= remembered {
		delete(e.traces, e.order[0])
		e.order = e.order[1:]
	}
	e.traces[rev], e.order = trace, append(e.order, rev)
}

// spanID is the revision: there is one write of each.
func spanID(rev int64) string { return fmt.Sprintf("%016x", rev) }

// send hands the writes over. What can't be delivered is lost: the collector is not a truth either.
func (e *Exporter) send(ctx context.Context, list []Write) error {
	body, err := json.Marshal(map[string]any{"resourceSpans": []any{map[string]any{
		"resource":   map[string]any{"attributes": []attribute{{"service.name", map[string]string{"stringValue": "kloop"}}}},
		"scopeSpans": []any{map[string]any{"scope": map[string]string{"name": "github.com/kloop-dev/kloop/trail"}, "spans": e.spans(list)}}}}})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	client := e.Client
	if client == nil {
		client = &http.Client{Timeout: 10 * time.Second}
	}
	res, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("export %d spans: %w", len(list), err)
	}
	defer func() { _ = res.Body.Close() }()
	if _, err := io.Copy(io.Discard, io.LimitReader(res.Body, 1<<16)); err != nil {
		return err
	}
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("export %d spans: the collector says %s", len(list), res.Status)
	}
	return nil
}

package aggregator

import (
	"bytes"
	"context"
	"crypto/sha512"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/openapi"
	"github.com/kloop-dev/kloop/server/httpapi/discovery"
)

// The bounds of other servers' documents, in bytes, and how long a joined document is remembered that nobody asks for.
const (
	docBytes   = 16 << 20
	joinedIdle = time.Minute
)

// described holds the OpenAPI of another server's group version. Aggregator.mu guards it.
type described struct {
	v3, v3Hash string // the document, "" for none
	v2         *swagger
	v2Tag      string
	old        bool // the server knows v2 only: v3 is made of it
	at         time.Time
	asking     chan struct{}
}

// describer is the user that asks for documents; as upstream.
var describer = &auth.User{Name: "system:aggregator", Groups: []string{auth.GroupMasters}}

// Docs returns documents that also hold what other servers describe. They are asked in the background: one that does not
// answer is missing, and delays nobody but the first who asks.
func (a *Aggregator) Docs(own discovery.Docs) discovery.Docs {
	return &joinedDocs{Docs: own, others: a}
}

// joinedDocs are the documents of this server and of others.
type joinedDocs struct {
	discovery.Docs
	others *Aggregator

	mu     sync.Mutex
	tag    string // of what follows
	json   []byte
	proto  []byte
	forget *time.Timer
}

// described returns others' documents as they are known now, by their path in the index.
func (a *Aggregator) described() map[string]described {
	list := a.services()
	if len(list) == 0 {
		return nil
	}
	first := time.Now().Add(askFirst)
	var waits []chan struct{}
	for _, svc := range list {
		if asking := a.beginDocs(svc); asking != nil {
			waits = append(waits, asking)
		}
	}
	for _, asking := range waits {
		select {
		case <-asking:
		case <-time.After(time.Until(first)):
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	known := map[string]described{}
	for _, svc := range list {
		if rt := a.remotes[svc.Name]; rt != nil {
			known["apis/"+svc.Spec.Group+"/"+svc.Spec.Version] = rt.docs
		}
	}
	return known
}

// beginDocs asks a server for its documents again when that was long ago, and returns what to wait for the first time.
func (a *Aggregator) beginDocs(svc *apiregistrationv1.APIService) chan struct{} {
	rt, err := a.remote(svc)
	if err != nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if rt.docs.asking == nil && time.Since(rt.docs.at) > askEvery {
		rt.docs.asking = make(chan struct{})
		go a.askDocs(svc, rt, rt.docs)
	}
	if !rt.docs.at.IsZero() {
		return nil
	}
	return rt.docs.asking
}

// askDocs fetches what has changed since it was known.
func (a *Aggregator) askDocs(svc *apiregistrationv1.APIService, rt *remote, known described) {
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	next, err := fetchDocs(ctx, svc, rt, known)
	if err != nil {
		slog.Debug("another server's OpenAPI can't be had", "kind", "APIService", "object", svc.Name, "err", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	close(known.asking)
	next.at, next.asking = time.Now(), nil
	rt.docs = next
}

// fetchDocs returns what is known now. Whatever another server sends, reading it does not end this one.
func fetchDocs(ctx context.Context, svc *apiregistrationv1.APIService, rt *remote, known described) (next described, err error) {
	next = known
	defer func() {
		if p := recover(); p != nil {
			next, err = known, fmt.Errorf("read the OpenAPI of %s: panic: %v", svc.Name, p)
		}
	}()
	err = fetchV3(ctx, svc, rt, &next)
	if next.old = errors.Is(err, errNoDoc); next.old {
		err = nil
	}
	return next, errors.Join(err, fetchV2(ctx, svc, rt, &next))
}

// fetchV3 fetches the v3 document if the index has another hash than before.
func fetchV3(ctx context.Context, svc *apiregistrationv1.APIService, rt *remote, d *described) error {
	data, _, err := fetchDoc(ctx, svc, rt, "/openapi/v3", "")
	if err != nil {
		return err
	}
	var index struct {
		Paths map[string]struct {
			URL string `json:"serverRelativeURL"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(data, &index); err != nil {
		return fmt.Errorf("read the index of OpenAPI of %s: %w", svc.Name, err)
	}
	at := index.Paths["apis/"+svc.Spec.Group+"/"+svc.Spec.Version].URL
	if at == "" || at == d.v3Hash {
		return nil
	}
	u, err := url.Parse(at)
	if err != nil {
		return fmt.Errorf("read the index of OpenAPI of %s: %w", svc.Name, err)
	}
	doc, _, err := fetchDoc(ctx, svc, rt, u.RequestURI(), "")
	if err != nil {
		return err
	}
	if !json.Valid(doc) {
		return fmt.Errorf("the OpenAPI v3 of %s is no JSON", svc.Name)
	}
	d.v3, d.v3Hash = string(doc), at
	return nil
}

// converted begins the hash of a v3 document that was made of a v2 document.
const converted = "v2 "

// fetchV2 fetches the v2 document if its tag has changed, and keeps what is about the group version.
func fetchV2(ctx context.Context, svc *apiregistrationv1.APIService, rt *remote, d *described) error {
	known := d.v2Tag
	if d.old && d.v3Hash != converted+known {
		known = "" // nothing was made of it yet
	}
	data, tag, err := fetchDoc(ctx, svc, rt, "/openapi/v2", known)
	if err != nil || data == nil {
		return err
	}
	spec, err := readSwagger(data)
	if err != nil {
		return fmt.Errorf("read the OpenAPI v2 of %s: %w", svc.Name, err)
	}
	spec.narrow("/apis/" + svc.Spec.Group + "/" + svc.Spec.Version)
	if tag == "" {
		tag = fmt.Sprintf("%X", sha512.Sum512_256(data))
	}
	if d.old {
		text, err := spec.text()
		if err != nil {
			return err
		}
		newer, err := openapi.V2ToV3(text)
		if err != nil {
			return fmt.Errorf("describe %s: %w", svc.Name, err)
		}
		d.v3, d.v3Hash = string(newer), converted+tag
	}
	spec.rest = nil
	d.v2, d.v2Tag = spec, tag
	return nil
}

// errNoDoc says that a server has no such document.
var errNoDoc = errors.New("it does not exist")

// fetchDoc gets a document; nil when it is still the one with the tag.
func fetchDoc(ctx context.Context, svc *apiregistrationv1.APIService, rt *remote, path, tag string) (data []byte, newTag string,
	err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+hostOf(svc)+path, nil)
	if err != nil {
		return nil, "", err
	}
	req.Header.Set("Accept", "application/json")
	if tag != "" {
		req.Header.Set("If-None-Match", tag)
	}
	resp, err := rt.transport.RoundTrip(asUser(WithUser(req, describer)))
	if err != nil {
		return nil, "", fmt.Errorf("GET %s: %w", path, err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusNotModified:
		return nil, tag, nil
	case http.StatusOK:
	case http.StatusNotFound:
		return nil, "", fmt.Errorf("GET %s: %w", path, errNoDoc)
	default:
		return nil, "", fmt.Errorf("GET %s: %s", path, resp.Status)
	}
	data, err = io.ReadAll(io.LimitReader(resp.Body, docBytes+1))
	if err == nil && len(data) > docBytes {
		err = fmt.Errorf("GET %s: the document is longer than %d bytes", path, docBytes)
	}
	return data, resp.Header.Get("Etag"), err
}

// Index implements discovery.Docs.
func (j *joinedDocs) Index() map[string]string {
	index := j.Docs.Index()
	for path, d := range j.others.described() {
		if d.v3 != "" {
			index[path] = hashOf(d.v3Hash)
		}
	}
	return index
}

func hashOf(link string) string { return fmt.Sprintf("%X", sha512.Sum512_256([]byte(link))) }

// V3 implements discovery.Docs.
func (j *joinedDocs) V3(path string) ([]byte, string, error) {
	if d := j.others.described()[path]; d.v3 != "" {
		return []byte(d.v3), hashOf(d.v3Hash), nil
	}
	return j.Docs.V3(path)
}

// V3Proto implements discovery.Docs.
func (j *joinedDocs) V3Proto(path string) ([]byte, string, error) {
	if d := j.others.described()[path]; d.v3 != "" {
		doc, err := openapi.V3ToProto([]byte(d.v3))
		return doc, hashOf(d.v3Hash), err
	}
	return j.Docs.V3Proto(path)
}

// V2JSON implements discovery.Docs.
func (j *joinedDocs) V2JSON() ([][]byte, string, error) {
	more := j.specs()
	doc, hash, err := j.Docs.V2JSON()
	if err != nil || len(more) == 0 {
		return doc, hash, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	joined, tag, err := j.join(doc, hash, more)
	return [][]byte{joined}, tag, err
}

// V2Hash implements discovery.Docs.
func (j *joinedDocs) V2Hash() string {
	hash, more := j.Docs.V2Hash(), j.specs()
	if len(more) == 0 {
		return hash
	}
	return tagOf(hash, more)
}

// tagOf is the hash of the document of all.
func tagOf(own string, more []described) string {
	sum := sha512.New()
	fmt.Fprintln(sum, own)
	for _, d := range more {
		fmt.Fprintln(sum, d.v2Tag)
	}
	return fmt.Sprintf("%X", sum.Sum(nil))
}

// V2Proto implements discovery.Docs.
func (j *joinedDocs) V2Proto() ([][]byte, string, error) {
	more := j.specs()
	if len(more) == 0 {
		return j.Docs.V2Proto()
	}
	own, hash, err := j.Docs.V2JSON()
	if err != nil {
		return nil, "", err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	doc, tag, err := j.join(own, hash, more)
	if err != nil {
		return nil, "", err
	}
	if j.proto == nil {
		if j.proto, err = openapi.V2ToProto(doc); err != nil {
			return nil, "", err
		}
	}
	return [][]byte{j.proto}, tag, nil
}

// specs are the v2 documents of others in a fixed order.
func (j *joinedDocs) specs() (list []described) {
	known := j.others.described()
	for _, path := range slices.Sorted(maps.Keys(known)) {
		if d := known[path]; d.v2 != nil {
			list = append(list, d)
		}
	}
	return list
}

// join returns the document of all, remembered while nothing changes; mu is held.
func (j *joinedDocs) join(own [][]byte, hash string, more []described) ([]byte, string, error) {
	tag := tagOf(hash, more)
	if j.forget == nil {
		j.forget = time.AfterFunc(joinedIdle, j.drop)
	} else {
		j.forget.Reset(joinedIdle)
	}
	if j.tag == tag && j.json != nil {
		return j.json, tag, nil
	}
	spec, err := readSwagger(bytes.Join(own, nil))
	if err != nil {
		return nil, "", err
	}
	for _, d := range more {
		spec.add(d.v2)
	}
	doc, err := spec.text()
	if err != nil {
		return nil, "", err
	}
	j.tag, j.json, j.proto = tag, doc, nil
	return doc, tag, nil
}

func (j *joinedDocs) drop() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.tag, j.json, j.proto = "", nil, nil
}

// refersTo is the prefix with which a v2 document names a definition.
func refersTo(name string) string {
	return `"#/definitions/` + strings.ReplaceAll(name, "/", "~1") + `"`
}

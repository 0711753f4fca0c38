package client

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/trail"
	"github.com/kloop-dev/kloop/view"
)

// maxAnswer bounds what Remote reads of one answer.
const maxAnswer = 64 << 20

// A Source names the objects that a Remote keeps a copy of: one kind, or those of its objects that the selectors name.
type Source struct {
	Kind      resource.Kind
	Namespace string // "": all
	Fields    string // field selector
	Labels    string // label selector
}

// Remote is a Client over HTTP, with what client-go calls shared informers: it keeps the kinds of its sources in a view of its own,
// each at a revision of its own, fed by one watch each; Run feeds them. Reads of other kinds find nothing: use Get.
type Remote struct {
	base    *url.URL
	http    *http.Client // for requests with an end
	stream  *http.Client // for watches
	set     *resource.Set
	view    *view.View
	sources []Source
	agent   string
	copies  *copies
}

var _ Client = (*Remote)(nil)

// NewRemote returns a client of the server that cfg names. agent is its user agent: what stands before the
// first slash becomes its field manager.
func NewRemote(cfg *rest.Config, set *resource.Set, agent string, sources ...Source) (*Remote, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent = agent
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("read the server's address: %w", err)
	}
	stream, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("set up the connection to %s: %w", base, err)
	}
	once := *stream
	once.Timeout = cfg.Timeout
	return &Remote{base: base, http: &once, stream: stream, set: set, view: view.New(set), sources: sources, agent: agent,
		copies: &copies{}}, nil
}

// As returns a client with another user agent, and so another field manager, that shares the copies.
func (r *Remote) As(agent string) *Remote {
	other := *r
	other.agent = agent
	return &other
}

// Kinds implements Client.
func (r *Remote) Kinds() *resource.Set { return r.set }

// Read implements Client.
func (r *Remote) Read() resource.Reader { return r.view.Snapshot() }

// Feed implements Client.
func (r *Remote) Feed(kinds ...resource.Kind) Feed { return NewFeed(r.view, kinds...) }

// Get implements Client.
func (r *Remote) Get(ctx context.Context, k resource.Kind, ns, name string) (resource.Object, error) {
	return r.do(ctx, k, http.MethodGet, r.path(k, ns, name, ""), nil, nil)
}

// Create implements Client.
func (r *Remote) Create(ctx context.Context, k resource.Kind, obj resource.Object) (resource.Object, error) {
	return r.do(ctx, k, http.MethodPost, r.path(k, obj.GetNamespace(), "", ""), nil, obj)
}

// Update implements Client.
func (r *Remote) Update(ctx context.Context, k resource.Kind, obj resource.Object, sub string) (resource.Object, error) {
	path := r.path(k, obj.GetNamespace(), obj.GetName(), sub)
	if sub == "scale" {
		return r.exchange(ctx, http.MethodPut, path, obj)
	}
	return r.do(ctx, k, http.MethodPut, path, nil, obj)
}

// Patch implements Client.
func (r *Remote) Patch(ctx context.Context, k resource.Kind, ns, name string, p Patch) (resource.Object, error) {
	query := url.Values{}
	manager := p.Manager
	if manager == "" && p.Type == types.ApplyPatchType { // the only one for which a server does not take the user agent
		manager, _, _ = strings.Cut(r.agent, "/")
	}
	if manager != "" {
		query.Set("fieldManager", manager)
	}
	if p.Force {
		query.Set("force", "true")
	}
	if p.DryRun {
		query.Set("dryRun", metav1.DryRunAll)
	}
	path := r.path(k, ns, name, p.Sub)
	if p.As.Empty() || p.As == k.Info().GVK {
		return r.send(ctx, k, http.MethodPatch, path, query, string(p.Type), p.Data)
	}
	other := groupPath(p.As) + strings.TrimPrefix(path, groupPath(k.Info().GVK))
	if _, _, err := r.round(ctx, http.MethodPatch, other, query, codec.JSON, string(p.Type), p.Data); err != nil {
		return nil, err
	}
	return r.Get(ctx, k, ns, name) // in the version that loops work with
}

// Delete implements Client.
func (r *Remote) Delete(ctx context.Context, k resource.Kind, ns, name string, opts *metav1.DeleteOptions) error {
	if opts == nil {
		opts = &metav1.DeleteOptions{}
	}
	body, err := codec.MarshalJSON(opts)
	if err != nil {
		return err
	}
	_, _, err = r.round(ctx, http.MethodDelete, r.path(k, ns, name, ""), nil, codec.JSON, codec.JSON, body)
	return err
}

// Call implements Client.
func (r *Remote) Call(ctx context.Context, k resource.Kind, ns, name, sub string, in resource.Object) (resource.Object, error) {
	return r.exchange(ctx, http.MethodPost, r.path(k, ns, name, sub), in)
}

// exchange sends an object that is not of the path's kind and decodes one of its own kind.
func (r *Remote) exchange(ctx context.Context, method, path string, in resource.Object) (resource.Object, error) {
	body, err := codec.MarshalJSON(in)
	if err != nil {
		return nil, err
	}
	data, _, err := r.round(ctx, method, path, nil, codec.JSON, codec.JSON, body)
	if err != nil {
		return nil, err
	}
	out := in.DeepCopyObject().(resource.Object)
	if _, err := codec.UnmarshalJSON(data, out); err != nil {
		return nil, fmt.Errorf("decode the answer to %s %s: %w", method, path, err)
	}
	return out, nil
}

func (r *Remote) path(k resource.Kind, ns, name, sub string) string {
	i := k.Info()
	p := groupPath(i.GVK)
	if i.Namespaced && ns != "" {
		p += "/namespaces/" + ns
	}
	p += "/" + i.Plural
	if name != "" {
		p += "/" + name
	}
	if sub != "" {
		p += "/" + sub
	}
	return p
}

func groupPath(gvk schema.GroupVersionKind) string {
	if gvk.Group == "" {
		return "/api/" + gvk.Version
	}
	return "/apis/" + gvk.Group + "/" + gvk.Version
}

// typedClone gives the server an object of its own that names its type and looks as if it had come over the wire.
func typedClone(k resource.Kind, obj resource.Object) resource.Object {
	obj = resource.Clone(obj)
	resource.CutTimes(obj)
	obj.GetObjectKind().SetGroupVersionKind(k.Info().GVK)
	return obj
}

// do sends an object, in protobuf where the kind has it, and decodes the object that comes back.
func (r *Remote) do(ctx context.Context, k resource.Kind, method, path string, query url.Values, obj resource.Object) (resource.Object,
	error) {
	if obj == nil {
		return r.send(ctx, k, method, path, query, "", nil)
	}
	obj = typedClone(k, obj)
	if k.Info().Custom {
		body, err := codec.MarshalJSON(obj)
		if err != nil {
			return nil, err
		}
		return r.send(ctx, k, method, path, query, codec.JSON, body)
	}
	body, err := codec.MarshalProto(obj)
	if err != nil {
		return nil, err
	}
	return r.send(ctx, k, method, path, query, codec.Protobuf, body)
}

func (r *Remote) send(ctx context.Context, k resource.Kind, method, path string, query url.Values, typ string,
	body []byte) (resource.Object, error) {
	accept := codec.Protobuf + "," + codec.JSON
	if k.Info().Custom {
		accept = codec.JSON
	}
	data, got, err := r.round(ctx, method, path, query, accept, typ, body)
	if err != nil {
		return nil, err
	}
	return decode(k, got, data)
}

func decode(k resource.Kind, typ string, data []byte) (resource.Object, error) {
	obj := k.New(k.Info().GVK)
	if typ == codec.Protobuf {
		return obj, codec.UnmarshalProto(data, obj)
	}
	if _, err := codec.UnmarshalJSON(data, obj); err != nil {
		return nil, fmt.Errorf("decode %s: %w", k.Info().GR(), err)
	}
	return obj, nil
}

// round makes one request and returns the body of a good answer with its media type.
func (r *Remote) round(ctx context.Context, method, path string, query url.Values, accept, typ string, body []byte) ([]byte, string,
	error) {
	req, err := r.request(ctx, method, path, query, accept, typ, body)
	if err != nil {
		return nil, "", err
	}
	res, err := r.http.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, "", fmt.Errorf("read the answer of %s %s: %w", method, path, err)
	}
	got := mediaType(res.Header.Get("Content-Type"))
	if res.StatusCode >= http.StatusBadRequest {
		return nil, "", statusError(res, got, data)
	}
	return data, got, nil
}

func (r *Remote) request(ctx context.Context, method, path string, query url.Values, accept, typ string, body []byte) (*http.Request,
	error) {
	u := r.base.JoinPath(path)
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("User-Agent", r.agent)
	if typ != "" {
		req.Header.Set("Content-Type", typ)
	}
	if c := trail.From(ctx); c != nil && method != http.MethodGet {
		if text := c.Encode(); text != "" {
			req.Header.Set(trail.Header, text)
		}
	}
	return req, nil
}

// statusError turns a bad answer into the error that any client of Kubernetes knows.
func statusError(res *http.Response, typ string, data []byte) error {
	st := &metav1.Status{}
	var err error
	if typ == codec.Protobuf {
		var raw []byte
		if _, raw, err = codec.OpenEnvelope(data); err == nil {
			err = st.Unmarshal(raw)
		}
	} else {
		_, err = codec.UnmarshalJSON(data, st)
	}
	if err != nil || st.Status != metav1.StatusFailure {
		after, _ := strconv.Atoi(res.Header.Get("Retry-After"))
		return apierrors.NewGenericServerResponse(res.StatusCode, res.Request.Method, schema.GroupResource{}, "",
			string(data[:min(len(data), 512)]), after, true)
	}
	return &apierrors.StatusError{ErrStatus: *st}
}

package httpapi

import (
	"mime"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/server/httpapi/reply"
)

// perform carries out the verb and answers. An error is answered by the caller.
func (c *request) perform() error {
	if c.called() {
		return c.code()
	}
	switch c.info.Verb {
	case "get":
		return c.get()
	case "list":
		return c.list()
	case "watch":
		return c.watch()
	case "create":
		return c.create()
	case "update":
		return c.update()
	case "patch":
		return c.patch()
	case "delete":
		return c.delete()
	case "deletecollection":
		return c.deleteCollection()
	}
	return reply.Generic(http.StatusMethodNotAllowed)
}

func (c *request) get() error {
	var opts metav1.GetOptions
	if c.r.URL.RawQuery != "" {
		q := c.r.URL.Query()
		if err := noExport(q); err != nil && c.info.Sub == "" {
			return err
		}
		if err := decodeQuery(q, &opts); err != nil {
			return err
		}
	}
	if err := c.storable(); err != nil {
		return err
	}
	e, err := c.ops().Get(c.r.Context(), c.request(), &opts)
	if err != nil {
		return err
	}
	return c.entry(http.StatusOK, e)
}

func (c *request) list() error {
	if c.info.bad != nil {
		return c.info.bad
	}
	l, err := c.ops().List(c.r.Context(), c.request(), &c.info.List)
	if err != nil {
		return err
	}
	return c.entries(l)
}

func (c *request) create() error {
	req, obj := c.request(), c.kind.New(c.gvk)
	req.Name = ""
	if err := c.posted(req, obj); err != nil {
		return err
	}
	e, err := c.ops().Create(c.r.Context(), req, obj)
	if err != nil {
		return err
	}
	return c.entry(http.StatusCreated, e)
}

func (c *request) update() error {
	req := c.request()
	obj, err := c.input()
	if err != nil {
		return err
	}
	if err := c.replacing(req, obj); err != nil {
		return err
	}
	if err := c.storable(); err != nil {
		return err
	}
	e, created, err := c.ops().Update(c.r.Context(), req, obj)
	if err != nil {
		return err
	}
	return c.entry(okOrCreated(created), e)
}

func okOrCreated(created bool) int {
	if created {
		return http.StatusCreated
	}
	return http.StatusOK
}

// The media types of patches. Custom resources have no strategic merge.
var patchTypes = []types.PatchType{types.JSONPatchType, types.MergePatchType, types.StrategicMergePatchType,
	types.ApplyYAMLPatchType}

func (c *request) patch() error {
	pt, err := c.patchType()
	if err != nil {
		return err
	}
	data, err := c.s.readBody(c.w, c.r)
	if err != nil {
		return err
	}
	req := c.request()
	opts, err := patchOptions(c.r, pt)
	if err != nil {
		return err
	}
	opts.apply(req)
	if err := c.storable(); err != nil {
		return err
	}
	c.w.audit.Patch(data)
	e, created, err := c.ops().Patch(c.r.Context(), req, pt, data, opts.Force)
	if err != nil {
		return err
	}
	return c.entry(okOrCreated(created), e)
}

func (c *request) patchType() (types.PatchType, error) {
	typ, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if err == nil {
		for _, pt := range patchTypes {
			if typ == string(pt) && (pt != types.StrategicMergePatchType || !c.facts.Custom) {
				return pt, nil
			}
		}
	}
	if !c.facts.Custom {
		return "", reply.Generic(http.StatusUnsupportedMediaType)
	}
	return "", reply.Error(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType,
		"the body of the request was in an unknown format - accepted media types include: application/json-patch+json, "+
			"application/merge-patch+json, application/apply-patch+yaml")
}

func (c *request) delete() error {
	opts, err := c.deleteOptions()
	if err == nil {
		warnOfOrphans(c, opts)
		err = c.storable()
	}
	if err != nil {
		return err
	}
	req := c.request()
	req.DryRun = len(opts.DryRun) > 0
	e, gone, err := c.ops().Delete(c.r.Context(), req, opts)
	if err != nil {
		return err
	}
	if gone && (e == nil || !c.facts.DeleteReturnsObject) {
		st := &metav1.Status{Status: metav1.StatusSuccess,
			Details: &metav1.StatusDetails{Name: c.info.Name, Group: c.gvk.Group, Kind: c.facts.Plural}}
		if e != nil {
			st.Details.UID = e.Object.GetUID()
		}
		reply.FillStatus(st)
		st.Code = 0 // upstream leaves it out
		c.w.audit.Answer(st)
		c.send.Object(c.w, c.r, c.acc.Plain(), http.StatusOK, st)
		return nil
	}
	return c.entry(deleteCode(gone, opts), e)
}

// deleteCode tells a deletion that waits for dependents from one that is done.
func deleteCode(gone bool, o *metav1.DeleteOptions) int {
	if !gone && o.OrphanDependents != nil && !*o.OrphanDependents {
		return http.StatusAccepted
	}
	return http.StatusOK
}

func (c *request) deleteCollection() error {
	if err := decodeQuery(c.r.URL.Query(), &c.info.List); err != nil {
		return err
	}
	if err := server.CheckListOptions(&c.info.List, c.info.List.Watch, true); err != nil {
		return err
	}
	req := c.request()
	if err := server.CheckSelectors(c.features, req, &c.info.List); err != nil { // upstream reads what is to go first
		return err
	}
	opts, err := c.deleteOptions()
	if err != nil {
		return err
	}
	req.DryRun = len(opts.DryRun) > 0
	if c.facts.Orphaned != "" {
		warnOfOrphans(c, opts)
	}
	l, err := c.ops().DeleteCollection(c.r.Context(), req, opts, &c.info.List)
	if err != nil {
		return err
	}
	return c.entries(l)
}

// deleteOptions come in the body or, when there is none, as parameters.
func (c *request) deleteOptions() (*metav1.DeleteOptions, error) {
	opts := &metav1.DeleteOptions{}
	data, err := c.s.readBody(c.w, c.r)
	if err != nil {
		return nil, err
	}
	if len(data) == 0 {
		err = decodeQuery(c.r.URL.Query(), opts)
	} else {
		err = decodeDeleteOptions(c.r, data, opts)
	}
	if err != nil {
		return nil, err
	}
	if len(data) > 0 {
		c.w.audit.Options(opts)
	}
	if err := invalidOptions("DeleteOptions", validation.ValidateDeleteOptions(opts)); err != nil {
		return nil, err
	}
	return opts, nil
}

// warnOfOrphans warns a caller who does not say what is to become of the dependents.
func warnOfOrphans(c *request, opts *metav1.DeleteOptions) {
	unread := opts.IgnoreStoreReadErrorWithClusterBreakingPotential // who asks for that gets other rules
	if opts.PropagationPolicy == nil && opts.OrphanDependents == nil && (unread == nil || !*unread) {
		c.warn.add(c.facts.Orphaned)
	}
}

// decodeDeleteOptions takes DeleteOptions of any group version, as clients send that of the object.
func decodeDeleteOptions(r *http.Request, data []byte, opts *metav1.DeleteOptions) error {
	f, err := reply.BodyFormat(r, true)
	if err != nil {
		return err
	}
	doc := data
	switch f {
	case reply.Proto:
		if err := codec.UnmarshalProto(data, opts); err != nil {
			return apierrors.NewBadRequest(unopened(data, err).Error())
		}
		return optionsKind(opts)
	case reply.YAML:
		if doc, _, err = codec.FromYAML(data); err != nil {
			return apierrors.NewBadRequest(bare(err).Error())
		}
	}
	if _, err := saysKind(doc); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	_, err = codec.UnmarshalJSON(doc, opts)
	if other := optionsKind(opts); other != nil {
		return other
	}
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

// posted reads what is to be created, and how. The first fault in upstream's order is the answer: the format, the size, the options, the
// content.
func (c *request) posted(req *server.Request, obj resource.Object) error {
	f, err := reply.BodyFormat(c.r, !c.facts.Custom)
	if err != nil {
		return err
	}
	data, err := c.s.readBody(c.w, c.r)
	if err != nil {
		return err
	}
	opts, err := createOptions(c.r)
	if err != nil {
		return err
	}
	opts.apply(req)
	return c.body(req, f, data, obj)
}

// replacing reads what an object is to become, and holds it to the URL. The format is looked at after the options.
func (c *request) replacing(req *server.Request, obj resource.Object) error {
	data, err := c.s.readBody(c.w, c.r)
	if err != nil {
		return err
	}
	opts, err := updateOptions(c.r)
	if err != nil {
		return err
	}
	opts.apply(req)
	f, err := reply.BodyFormat(c.r, !c.facts.Custom)
	if err != nil {
		return err
	}
	if err := c.body(req, f, data, obj); err != nil {
		return err
	}
	return sameName(obj, req.Namespace, req.Name)
}

// body decodes the body of a request into obj.
func (c *request) body(req *server.Request, f reply.Format, data []byte, obj resource.Object) error {
	if err := c.decode(f, data, obj, req.Strict); err != nil {
		return err
	}
	c.w.audit.Object(obj)
	if req.Namespace != "" && obj.GetNamespace() == "" {
		obj.SetNamespace(req.Namespace)
	}
	return nil
}

package httpapi

import (
	"fmt"
	"maps"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	metav1beta1 "k8s.io/apimachinery/pkg/apis/meta/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/server/httpapi/reply"
	"github.com/kloop-dev/kloop/view"
)

// The shapes that an object can be asked for as.
const (
	shapeTable    = "Table"
	shapePartial  = "PartialObjectMetadata"
	shapePartials = "PartialObjectMetadataList"
)

// allows judges an Accept clause with `as`.
func (c *call) allows(a reply.Accepted) bool {
	if a.Group != metav1.GroupName || (a.Version != "v1" && a.Version != "v1beta1") {
		return false
	}
	switch a.As {
	case shapeTable:
		return a.Format != reply.Proto && !c.called() // what code answers has no columns
	case shapePartial, shapePartials:
		return true
	}
	return false
}

func misfit(format string, args ...any) error {
	return reply.Error(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable, format, args...)
}

// shaped answers with one object in the shape that was asked for.
func (c *call) shaped(code int, k resource.Kind, obj resource.Object) error {
	out, err := c.shape(k, obj, nil)
	if err != nil {
		return err
	}
	c.send.Object(c.w, c.r, c.acc, code, out)
	return nil
}

// shape makes a table or the bare metadata of one object; opts may be given to save reading them again.
func (c *call) shape(k resource.Kind, obj resource.Object, opts *metav1.TableOptions) (runtime.Object, error) {
	switch c.acc.As {
	case shapePartial:
		return c.partial(obj), nil
	case shapePartials:
		return nil, misfit("you requested %s, but the requested object is not a list (%T)", shapePartials, obj)
	}
	if opts == nil {
		var err error
		if opts, err = c.tableOptions(); err != nil {
			return nil, err
		}
	}
	t := c.table(k, opts, 1)
	t.ResourceVersion = obj.GetResourceVersion()
	return t, c.addRow(t, k, obj, opts, resource.RowsAs(c.cfg.Kinds.Features(), k, nil))
}

// partial is the metadata of an object as an object of its own. It shares memory with obj.
func (c *call) partial(obj resource.Object) *metav1.PartialObjectMetadata {
	p := meta.AsPartialObjectMetadata(obj)
	if name := c.facts.Hides; p.Annotations[name] != "" {
		p.Annotations = maps.Clone(p.Annotations)
		if delete(p.Annotations, name); len(p.Annotations) == 0 {
			p.Annotations = nil
		}
	}
	p.TypeMeta = metav1.TypeMeta{Kind: shapePartial, APIVersion: c.acc.APIVersion()}
	if c.acc.Group == "" || c.acc.As == shapeTable {
		p.APIVersion = metav1.SchemeGroupVersion.String()
		if c.acc.Version == "v1beta1" {
			p.APIVersion = metav1beta1.SchemeGroupVersion.String()
		}
	}
	return p
}

func (c *call) tableOptions() (*metav1.TableOptions, error) {
	var o metav1.TableOptions
	if err := decodeQuery(c.r.URL.Query(), &o); err != nil {
		return nil, err
	}
	if errs := validation.ValidateTableOptions(&o); len(errs) > 0 {
		return nil, apierrors.NewBadRequest(errs.ToAggregate().Error())
	}
	return &o, nil
}

const apiextensions = "apiextensions.k8s.io"

// table is an empty table with columns.
func (c *call) table(k resource.Kind, o *metav1.TableOptions, rows int) *metav1.Table {
	t := &metav1.Table{TypeMeta: metav1.TypeMeta{Kind: shapeTable, APIVersion: c.acc.APIVersion()}}
	header := resource.HeaderAs(c.cfg.Kinds.Features(), k)
	if !o.NoHeaders {
		t.ColumnDefinitions = header
	}
	bare := len(header) == 2 && header[1].Name == "Created At"
	if rows > 0 || !bare && c.facts.GVK.Group != apiextensions { // kinds without columns, and definitions, have null for no rows
		t.Rows = make([]metav1.TableRow, 0, rows)
	}
	return t
}

// addRow adds the row of an object of the version that the caller speaks; cells makes what stands in it.
func (c *call) addRow(t *metav1.Table, k resource.Kind, obj resource.Object, o *metav1.TableOptions,
	cells func(resource.Object) []any,
) error {
	hub := obj
	if !c.facts.Custom { // those have columns in every version
		var err error
		if hub, err = k.ConvertTo(c.r.Context(), obj, k.Info().GVK); err != nil {
			return err
		}
	}
	row := metav1.TableRow{Cells: cells(hub)}
	if m, ok := k.(resource.Marked); ok {
		row.Conditions = m.RowMarks(hub)
	}
	switch o.IncludeObject {
	case metav1.IncludeObject:
		row.Object.Object = obj
	case metav1.IncludeNone:
	default:
		row.Object.Object = c.partial(hub)
	}
	t.Rows = append(t.Rows, row)
	return nil
}

// shapedList answers with a list in the shape that was asked for.
func (c *call) shapedList(l *server.List) error {
	var out runtime.Object
	var err error
	switch c.acc.As {
	case shapeTable:
		out, err = c.tableOf(l)
	case shapePartials:
		return c.partialList(l)
	default:
		err = misfit("you requested %s, but the requested object is a list (%s)", shapePartial, c.facts.ListKind)
	}
	if err != nil {
		return err
	}
	c.send.Object(c.w, c.r, c.acc, http.StatusOK, out)
	return nil
}

func (c *call) tableOf(l *server.List) (*metav1.Table, error) {
	o, err := c.tableOptions()
	if err != nil {
		return nil, err
	}
	t := c.table(c.kind, o, len(l.Entries))
	t.ListMeta = listOf{l}.meta()
	var all []resource.Object
	if resource.RelatesRows(c.kind) {
		for _, e := range l.Entries {
			all = append(all, e.Object)
		}
	}
	cells := resource.RowsAs(c.cfg.Kinds.Features(), c.kind, all)
	for _, e := range c.rows(l.Entries) {
		obj, err := c.kind.ConvertTo(c.r.Context(), e.Object, c.gvk)
		if err != nil {
			return nil, fmt.Errorf("show %s: %w", e.Object.GetName(), err)
		}
		if err := c.addRow(t, c.kind, obj, o, cells); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// rows is a list in the order of the table's rows.
func (c *call) rows(list []*view.Entry) []*view.Entry {
	if k, ok := c.kind.(resource.Sorted); ok {
		if order := k.RowOrder(); order != nil {
			list = slices.Clone(list)
			slices.SortStableFunc(list, func(a, b *view.Entry) int { return order(a.Object, b.Object) })
		}
	}
	return list
}

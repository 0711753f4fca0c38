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
func (c *request) allows(a reply.Accepted) bool {
	if a.Group != metav1.GroupName || (a.Version != "v1" && a.Version != "v1beta1") {
		return false
	}
	switch a.As {
	case shapeTable:
		return a.Format != reply.Proto && !c.called() && hasColumns(c.facts, c.info.Sub) // what code answers has no columns
	case shapePartial, shapePartials:
		return true
	}
	return false
}

// hasColumns says whether what was asked for can be shown as a table: of what is below objects that is scales, and statuses but
// for some kinds'.
func hasColumns(facts *resource.Info, sub string) bool {
	switch sub {
	case "", "scale":
		return true
	case "status":
		return !facts.StatusWithoutTable
	}
	return false
}

func misfit(format string, args ...any) error {
	return reply.Error(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable, format, args...)
}

// shaped answers with one object in the shape that was asked for. hub is the object as it is stored, nil if it is not at hand.
func (p *responder) shaped(code int, k resource.Kind, obj, hub resource.Object) error {
	out, err := p.shape(k, obj, hub, nil)
	if err != nil {
		return err
	}
	p.send.Object(p.w, p.r, p.acc, code, out)
	return nil
}

// shape makes a table or the bare metadata of one object; opts may be given to save reading them again.
func (p *responder) shape(k resource.Kind, obj, hub resource.Object, opts *metav1.TableOptions) (runtime.Object, error) {
	switch p.acc.As {
	case shapePartial:
		if !p.facts.Custom && hub != nil {
			obj = hub // another version may show fields as annotations
		}
		return p.partial(obj), nil
	case shapePartials:
		if p.facts.Custom { // upstream takes every such object for a list, at first
			return nil, server.PlainError("content is not a list")
		}
		return nil, misfit("you requested %s, but the requested object is not a list (%s)", shapePartials, typeName(p.facts, p.gvk.Kind))
	}
	if opts == nil {
		var err error
		if opts, err = p.tableOptions(); err != nil {
			return nil, err
		}
	}
	t := p.table(k, opts, 1)
	t.ResourceVersion = obj.GetResourceVersion()
	return t, p.addRow(t, k, obj, hub, opts, k.Rows(p.features, nil))
}

// partial is the metadata of an object as an object of its own. It shares memory with obj.
func (p *responder) partial(obj resource.Object) *metav1.PartialObjectMetadata {
	m := meta.AsPartialObjectMetadata(obj)
	if name := p.facts.Hides; m.Annotations[name] != "" {
		m.Annotations = maps.Clone(m.Annotations)
		if delete(m.Annotations, name); len(m.Annotations) == 0 {
			m.Annotations = nil
		}
	}
	m.TypeMeta = metav1.TypeMeta{Kind: shapePartial, APIVersion: p.acc.APIVersion()}
	if p.acc.Group == "" || p.acc.As == shapeTable {
		m.APIVersion = metav1.SchemeGroupVersion.String()
		if p.acc.Version == "v1beta1" {
			m.APIVersion = metav1beta1.SchemeGroupVersion.String()
		}
	}
	return m
}

func (p *responder) tableOptions() (*metav1.TableOptions, error) {
	var o metav1.TableOptions
	if err := decodeQuery(p.r.URL.Query(), &o); err != nil {
		return nil, err
	}
	if errs := validation.ValidateTableOptions(&o); len(errs) > 0 {
		return nil, apierrors.NewBadRequest("Unable to convert to Table as requested: " + errs.ToAggregate().Error())
	}
	return &o, nil
}

const apiextensions = "apiextensions.k8s.io"

// table is an empty table with columns.
func (p *responder) table(k resource.Kind, o *metav1.TableOptions, rows int) *metav1.Table {
	t := &metav1.Table{TypeMeta: metav1.TypeMeta{Kind: shapeTable, APIVersion: p.acc.APIVersion()}}
	header := k.Header(p.features)
	if !o.NoHeaders {
		t.ColumnDefinitions = header
	}
	bare := len(header) == 2 && header[1].Name == "Created At"
	if rows > 0 || !bare && p.facts.GVK.Group != apiextensions { // kinds without columns, and definitions, have null for no rows
		t.Rows = make([]metav1.TableRow, 0, rows)
	}
	return t
}

// addRow adds the row of an object of the version that the caller speaks; cells makes what stands in it, of the object as it is
// stored: another version may not hold everything, or in another order.
func (p *responder) addRow(t *metav1.Table, k resource.Kind, obj, hub resource.Object, o *metav1.TableOptions,
	cells func(resource.Object) []any,
) error {
	switch {
	case p.facts.Custom: // those have columns in every version
		hub = obj
	case hub == nil:
		var err error
		if hub, err = k.ConvertTo(p.r.Context(), obj, k.Info().GVK); err != nil {
			return err
		}
	}
	row := metav1.TableRow{Cells: cells(hub), Conditions: resource.Marks(k, hub)}
	switch o.IncludeObject {
	case metav1.IncludeObject:
		row.Object.Object = obj
	case metav1.IncludeNone:
	default:
		row.Object.Object = p.partial(hub)
	}
	t.Rows = append(t.Rows, row)
	return nil
}

// shapedList answers with a list in the shape that was asked for.
func (p *responder) shapedList(l *server.List) error {
	var out runtime.Object
	var err error
	switch p.acc.As {
	case shapeTable:
		out, err = p.tableOf(l)
	case shapePartials:
		return p.partialList(l)
	default:
		err = misfit("you requested %s, but the requested object is a list (%s)", shapePartial, typeName(p.facts, p.facts.ListKind))
	}
	if err != nil {
		return err
	}
	p.send.Object(p.w, p.r, p.acc, http.StatusOK, out)
	return nil
}

func (p *responder) tableOf(l *server.List) (*metav1.Table, error) {
	o, err := p.tableOptions()
	if err != nil {
		return nil, err
	}
	t := p.table(p.kind, o, len(l.Entries))
	t.ListMeta = listOf{l}.meta()
	var all []resource.Object
	if resource.RelatesRows(p.kind) {
		for _, e := range l.Entries {
			all = append(all, e.Object)
		}
	}
	cells := p.kind.Rows(p.features, all)
	for i, e := range p.rows(l.Entries) {
		if err := p.gone(i); err != nil {
			return nil, err
		}
		obj, err := p.kind.ConvertTo(p.r.Context(), e.Object, p.gvk)
		if err != nil {
			return nil, fmt.Errorf("show %s: %w", e.Object.GetName(), err)
		}
		if err := p.addRow(t, p.kind, obj, e.Object, o, cells); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// rows is a list in the order of the table's rows.
func (p *responder) rows(list []*view.Entry) []*view.Entry {
	if order := resource.RowOrder(p.kind); order != nil {
		list = slices.Clone(list)
		slices.SortStableFunc(list, func(a, b *view.Entry) int { return order(a.Object, b.Object) })
	}
	return list
}

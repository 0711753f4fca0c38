package httpapi

import (
	"net/http"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/server/httpapi/reply"
)

// A responder writes objects in the representation that the client negotiated: the version it speaks, a media type, and a
// shape, which is the object itself, a Table or PartialObjectMetadata. It knows what was asked for, but neither how objects are
// read nor who may. It belongs to one request.
type responder struct {
	send     reply.Sender
	features *features.Set
	w        *recorder
	r        *http.Request
	kind     resource.Kind
	facts    *resource.Info
	gvk      schema.GroupVersionKind
	out      schema.GroupVersionKind // of the bodies: gvk, unless a subresource has its own
	acc      reply.Accepted          // once it is negotiated
}

// lookUp is the number of items of a list between two looks at the request.
const lookUp = 256

// gone is an error when the client has gone: nobody reads what would be made of a list's items from i on.
func (p *responder) gone(i int) error {
	if i%lookUp != 0 || p.r.Context().Err() == nil {
		return nil
	}
	return server.StoreError(p.r.Context().Err(), "list "+p.facts.Plural)
}

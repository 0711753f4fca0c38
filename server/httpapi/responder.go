package httpapi

import (
	"net/http"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/resource"
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

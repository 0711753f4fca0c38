package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
)

// listPage is the page size of lists.
const listPage = 500

// knowsNoLists says that a server's refusal may be of the initial events of a watch: servers have had them for certain since 1.34, and
// not on an etcd before 3.4.25 (KEP-3157). Such a server is asked for a list first, as clients did before.
func knowsNoLists(err error) bool {
	var st apierrors.APIStatus
	if !errors.As(err, &st) {
		return false
	}
	switch st.Status().Code {
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusInternalServerError:
		return true
	}
	return false
}

// list brings the copy up to date by a list, page by page: all pages are of one revision.
func (w *watch) list(ctx context.Context) error {
	var all []resource.Object
	k, q := w.src.Kind, url.Values{"limit": {strconv.Itoa(listPage)}}
	w.src.selectors(q)
	for {
		data, _, err := w.remote.round(ctx, http.MethodGet, w.remote.path(k, w.src.Namespace, "", ""), q, codec.JSON, "", nil)
		switch {
		case apierrors.IsNotFound(err):
			return errAbsent
		case apierrors.IsResourceExpired(err) || apierrors.IsGone(err):
			return errStale
		case err != nil:
			return err
		}
		var page struct {
			Metadata metav1.ListMeta   `json:"metadata"`
			Items    []json.RawMessage `json:"items"`
		}
		if err := json.Unmarshal(data, &page); err != nil {
			return fmt.Errorf("decode the list of %s: %w", k.Info().GR(), err)
		}
		for _, item := range page.Items {
			obj, err := decode(k, codec.JSON, item)
			if err != nil {
				return err
			}
			all = append(all, obj)
		}
		if q.Set("continue", page.Metadata.Continue); page.Metadata.Continue != "" {
			continue
		}
		rev, err := strconv.ParseInt(page.Metadata.ResourceVersion, 10, 64)
		if err != nil {
			return fmt.Errorf("list of %s without a revision: %w", k.Info().GR(), err)
		}
		w.to.replace(rev, all)
		w.rev = rev
		return w.complete()
	}
}

// selectors adds to a query which objects of the kind are meant.
func (s *Source) selectors(q url.Values) {
	if s.Fields != "" {
		q.Set("fieldSelector", s.Fields)
	}
	if s.Labels != "" {
		q.Set("labelSelector", s.Labels)
	}
}

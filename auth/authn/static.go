package authn

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/kloop-dev/kloop/auth"
)

// ReadStatic reads upstream's token file: lines of token, user name, uid and, if there are any, groups, quoted and with
// commas between them.
func ReadStatic(r io.Reader) (Static, error) {
	lines := csv.NewReader(r)
	lines.FieldsPerRecord = -1
	users := map[string]*auth.User{}
	for {
		rec, err := lines.Read()
		if errors.Is(err, io.EOF) {
			return NewStatic(users), nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the token file: %w", err)
		}
		n, _ := lines.FieldPos(0)
		if len(rec) < 3 || rec[0] == "" || rec[1] == "" {
			return nil, fmt.Errorf("the token file, line %d: write token,user,uid[,\"group,group\"]", n)
		}
		if users[rec[0]] != nil {
			return nil, fmt.Errorf("the token file, line %d: the token stands there twice", n)
		}
		u := &auth.User{Name: rec[1], UID: rec[2]}
		if len(rec) > 3 && rec[3] != "" {
			for g := range strings.SplitSeq(rec[3], ",") {
				u.Groups = append(u.Groups, strings.TrimSpace(g))
			}
		}
		users[rec[0]] = u
	}
}

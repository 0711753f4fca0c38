package resident

import (
	"fmt"
	"testing"
)

func TestMapped(t *testing.T) {
	const table = `00400000-00452000 r-xp 00000000 08:02 173521      /usr/bin/kloop
Size:               4096 kB
Anonymous:             0 kB
00452000-00460000 r--p 00000000 08:02 173521      /usr/bin/kloop
Anonymous:             8 kB
00460000-00470000 r--p 00000000 08:02 173521      /usr/bin/kloop
Anonymous:             0 kB
00470000-00480000 rw-p 00000000 08:02 173521      /usr/bin/kloop
Anonymous:             0 kB
7f0000000000-7f0000400000 r--s 00000000 08:02 17      /data/etcd/member/snap/db
Anonymous:             0 kB
VmFlags: rd sh mr mw me ms sd
7f1000000000-7f1000400000 rw-p 00000000 00:00 0
Anonymous:             0 kB
7f2000000000-7f2000400000 r--s 00000000 08:02 18      /other/data/etcd/member/snap/db
Anonymous:             0 kB
7f3000000000-7f3000400000 r--p 00000000 08:02 17      /data/etcd/member/snap/db
Anonymous:             0 kB
zz-7f3000400000 r--s 00000000 08:02 17      /data/etcd/member/snap/db
Anonymous:             0 kB
7f4000000000-7f4000001000 r--s 00000000 08:02 19      /data/etcd/member/snap/db (deleted)
Anonymous:             0 kB
7f5000000000-7f5000001000 r--s 00000000 08:02 17      /data/etcd/member/snap/db
7f6000000000-7f6000001000 r--p 00000000 08:02 173521      /usr/bin/kloop
`
	for _, row := range []struct {
		name, file string
		perms      []string
		want       string
	}{
		{"a file that is shared", "/data/etcd/member/snap/db", []string{"r--s"}, "[7f0000000000-7f0000400000 7f5000000000-7f5000001000]"},
		{"a program, without what it has changed", "/usr/bin/kloop", []string{"r-xp", "r--p"}, "[400000-452000 460000-470000]"},
		{"none", "/usr/bin/other", []string{"r-xp", "r--p"}, "[]"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var got []string
			for from, to := range mapped([]byte(table), row.file, row.perms) {
				got = append(got, fmt.Sprintf("%x-%x", from, to))
			}
			if fmt.Sprint(got) != row.want {
				t.Errorf("%v, want %s", got, row.want)
			}
		})
	}
}

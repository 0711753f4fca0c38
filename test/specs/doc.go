// Package specs has tables of upstream's end-to-end specs: which test of this repository has the behaviour that a spec asks for, or why
// none does. Each table is a file of four columns: the group, the file below test/e2e or a pattern, a part of the specs' names (empty: all
// of them), and tests as PATH NAME parted by semicolons, or a dash and a reason.
package specs

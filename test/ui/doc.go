// Package ui looks at the live page in a real browser: every view, what it makes of hostile names, who is let in, its accessibility,
// and how soon it paints. The tests need Chromium and axe-core, which scripts/browser installs.
package ui

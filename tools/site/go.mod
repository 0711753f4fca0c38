// Makes the documentation's site of the pages in this repository; a module of its own, since kloop needs no Markdown.
module github.com/kloop-dev/kloop/tools/site

go 1.26.8

require github.com/yuin/goldmark v1.8.7

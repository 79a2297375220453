#pragma once

#include <string_view>

#include "tensora/serve/router.h"

namespace tensora::serve {

/// The chat page, made at build time from page/index.html by cmake/embed_page.py.
struct Page {
  std::string_view html;
  std::string_view gzip;    // the same, compressed
  std::string_view tag;     // changes with the page
  std::string_view policy;  // its Content-Security-Policy, with the hashes of its script and style
};
const Page& page();

/// GET /: the chat page. It is public, since it asks for the key itself.
void add_page_routes(Router& router);

}  // namespace tensora::serve

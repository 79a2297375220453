#pragma once

#include <curl/curl.h>
#include <dlfcn.h>

#include "tensora/base/check.h"

namespace tensora::cli {

/// The functions of libcurl that a download calls. The library is opened when they are first asked
/// for: it brings some thirty others along, and all but `tensora pull` works, and starts faster,
/// without it.
struct CurlLibrary {
  decltype(&curl_global_init) global_init = function("curl_global_init");
  decltype(&curl_easy_init) easy_init = function("curl_easy_init");
  decltype(&curl_easy_setopt) easy_setopt = function("curl_easy_setopt");
  decltype(&curl_easy_getinfo) easy_getinfo = function("curl_easy_getinfo");
  decltype(&curl_easy_perform) easy_perform = function("curl_easy_perform");
  decltype(&curl_easy_strerror) easy_strerror = function("curl_easy_strerror");
  decltype(&curl_easy_cleanup) easy_cleanup = function("curl_easy_cleanup");
  decltype(&curl_slist_append) slist_append = function("curl_slist_append");
  decltype(&curl_slist_free_all) slist_free_all = function("curl_slist_free_all");

  static const CurlLibrary& get() {
    static const CurlLibrary library;
    return library;
  }

 private:
  struct Address {
    void* address;
    template <class F>
    operator F*() const {  // NOLINT(google-explicit-constructor)
      return reinterpret_cast<F*>(address);
    }
  };
  static void* open() {
    void* library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    if (!library) library = dlopen("libcurl-gnutls.so.4", RTLD_NOW | RTLD_LOCAL);
    check(library != nullptr, "downloads need libcurl, which is not installed (Debian: libcurl4)");
    return library;
  }
  static Address function(const char* name) {
    static void* const library = open();
    void* address = dlsym(library, name);
    check(address != nullptr, "libcurl: there is no function ", name);
    return {address};
  }
};

}  // namespace tensora::cli

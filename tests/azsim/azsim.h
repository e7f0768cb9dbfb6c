/* SPDX-License-Identifier: MIT */
/* What all parts of the server share. */
#ifndef TW_AZSIM_AZSIM_H
#define TW_AZSIM_AZSIM_H

struct azsim {
    struct catalog *catalog;
    struct gates *gates;
    struct limits *limits;
    struct journal *journal;
    struct crypto_hmac_key *keys[2]; /* of every account; knobs.keys */
};

#endif

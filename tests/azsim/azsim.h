/* SPDX-License-Identifier: MIT */
/* What all parts of azsim share. */
#ifndef TW_AZSIM_AZSIM_H
#define TW_AZSIM_AZSIM_H

struct azsim {
    struct catalog *catalog;
    struct gates *gates;
    struct limits *limits;
    struct journal *journal;
    struct crypto_hmac_key *keys[2]; /* every account has these keys; knobs.keys
                                        says which keys are accepted */
};

#endif

extension Description {
    /// The answers that are no 200.
    static let responses = #"""
        {
          "Malformed": {
            "description": "Not what is asked for.",
            "content": {"application/json": {"schema": {"$ref": \#
        "#/components/schemas/Failure"}}}
          },
          "Unauthenticated": {
            "description": "No token, or one that does not hold.",
            "content": {"application/json": {"schema": {"$ref": \#
        "#/components/schemas/Failure"}}}
          },
          "Code": {
            "description": "The code does not hold.",
            "content": {"application/json": {"schema": {"$ref": \#
        "#/components/schemas/Failure"}}}
          },
          "NotFound": {
            "description": "No such thing, or not this account's.",
            "content": {"application/json": {"schema": {"$ref": \#
        "#/components/schemas/Failure"}}}
          },
          "Method": {
            "description": "Another method is asked for.",
            "content": {"application/json": {"schema": {"$ref": \#
        "#/components/schemas/Failure"}}}
          },
          "Conflict": {
            "description": "Nothing was applied: chunks are missing, were collected, or a \#
        number is skipped; or a device's id is taken.",
            "content": {"application/json": {"schema": {"$ref": \#
        "#/components/schemas/Failure"}}}
          },
          "Gone": {
            "description": "An epoch has changed, or the device was copied.",
            "content": {"application/json": {"schema": {"$ref": \#
        "#/components/schemas/Failure"}}}
          },
          "TooLarge": {
            "description": "More than a hub takes.",
            "content": {"application/json": {"schema": {"$ref": \#
        "#/components/schemas/Failure"}}}
          },
          "ContentType": {
            "description": "Another type of body is asked for.",
            "content": {"application/json": {"schema": {"$ref": \#
        "#/components/schemas/Failure"}}}
          },
          "TooMany": {
            "description": "Too often.",
            "content": {"application/json": {"schema": {"$ref": \#
        "#/components/schemas/Failure"}}}
          },
          "Failed": {
            "description": "The hub failed.",
            "content": {"application/json": {"schema": {"$ref": \#
        "#/components/schemas/Failure"}}}
          },
          "Busy": {
            "description": "Try again.",
            "content": {"application/json": {"schema": {"$ref": \#
        "#/components/schemas/Failure"}}}
          },
          "Full": {
            "description": "The hub's disk is full; nothing was applied.",
            "content": {"application/json": {"schema": {"$ref": \#
        "#/components/schemas/Failure"}}}
          }
        }
        """#
}
